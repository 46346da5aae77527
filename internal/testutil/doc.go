// Package testutil holds what tests of several packages share. It imports
// nothing of ours, and no product code imports it.
package testutil
