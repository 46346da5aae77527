package msgr

// Conn is one connection to a peer.
type Conn struct{}
