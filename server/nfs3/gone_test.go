package nfs3

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"capstan/server/rpc"
)

// TestClientGone: a client that goes away while its READs wait for room is no
// fault of the server's, whatever ended its connection, and no line in the log.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBedWith(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		f := b.create(b.root, "f", 0o644)
		b.want(OK, superuser, procWrite, enc().fh(f).u64(0).u32(4096).u32(0).str(string(make([]byte, 4096))))

		s := rpc.NewServer(rpc.Options{MaxReplyBytesPerConn: 6000})
		s.Register(b.server.NFS())
		here, there := net.Pipe()
		conn := s.ServeConn(there)
		// Nobody takes the first reply, so the others have no room. AUTH_SYS of
		// the superuser, AUTH_NONE, then the arguments.
		read := enc().fh(f).u64(0).u32(4096)
		call := enc().u32(1).u32(0).u32(rpc.Version).u32(Program).u32(3).u32(procRead).
			u32(1).u32(20).u32(0).u32(0).u32(0).u32(0).u32(0).u32(0).u32(0)
		record := append(enc().u32(1<<31|uint32(len(call)+len(read))), append(call, read...)...)
		if _, err := here.Write(bytes.Repeat(record, 8)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := s.Stats().Calls; n != 8 {
			t.Fatalf("%d calls", n)
		}
		conn.Close(&net.OpError{Op: "writev", Err: syscall.ECONNRESET})
		synctest.Wait()
		if st := s.Stats(); st != (rpc.Stats{}) {
			t.Errorf("left: %+v", st)
		}
		if log.Len() != 0 {
			t.Errorf("%s", &log)
		}
		here.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
