package mon

import "capstan/cephfs/auth"

// AuthOf is who a client is, for tests.
func AuthOf(c *Client) *auth.Client { return c.auth }
