// Package server puts the NFS server together: the RPC layer, the programs of
// NFSv3, MOUNT and NFSv4 on it, the exports with the engines behind them, and
// what an operator sees (metrics, health, status).
//
// [Start] opens everything and serves, [Server.Reload] exchanges the exports,
// [Server.Shutdown] stops in order: no new connections, running calls finish,
// state gives back its files, Volumes sync and close.
//
// # Goroutines
//
// One per listener, the HTTP servers of metrics and control, and one that
// retries engines that could not be opened; Shutdown waits for all of them. The
// packages below say which are theirs.
//
// # Lock order
//
// Server.reload is held while exports are exchanged, and over calls into
// engines. Server.mu is a leaf.
package server
