package mon

import "capstan/cephfs/auth"

// AuthOf is who a client is, for tests.
func AuthOf(c *Client) *auth.Client { return c.auth }

// ReadyAgain tells the session in use that its connection came back by itself.
func ReadyAgain(c *Client) {
	c.mu.Lock()
	s := c.active
	c.mu.Unlock()
	s.Ready(s.conn)
}
