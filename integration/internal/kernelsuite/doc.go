// Package kernelsuite is a test program: the behaviour suite of every Volume
// (package exporttest) on a directory, where a kernel client has mounted an
// export. The lab builds it with "go test -c" and runs it in a guest.
package kernelsuite
