package osd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"capstan/cephfs/msgr"
	"capstan/cephfs/osd"
)

// messenger and maps come from packages msgr and mon: see there.
var (
	messenger *msgr.Messenger
	maps      *osd.MonMaps
)

func Example() {
	ctx := context.Background()
	c := osd.New(osd.Options{Messenger: messenger, Maps: maps})
	defer c.Close()

	pool, ok := maps.Current().PoolID("mypool")
	if !ok {
		log.Fatal("no such pool")
	}
	o := osd.Object{Pool: pool, Name: "greeting"}
	if err := c.WriteFull(ctx, o, []byte("hello")); err != nil {
		log.Fatal(err)
	}

	// Change it only if it is still what was written.
	var op osd.Op
	op.CompareExtent(0, []byte("hello"))
	op.Write(0, []byte("HELLO"))
	op.SetXattr("lang", []byte("en"))
	reply, err := c.Do(ctx, o, &op)
	var differs *osd.CompareError
	if errors.As(err, &differs) {
		fmt.Println("somebody else was here, at byte", differs.Offset)
	}
	reply.Release()

	buf := make([]byte, 4096)
	n, err := c.Read(ctx, o, 0, buf)
	fmt.Printf("%q, %v\n", buf[:n], err)
}

func ExampleClient_Submit() {
	ctx := context.Background()
	c := osd.New(osd.Options{Messenger: messenger, Maps: maps})
	defer c.Close()

	// File data: with the truncation and the snapshots that the metadata server
	// told, all taken at one moment.
	op := &osd.Op{
		Trunc:  osd.Trunc{Seq: 3, Size: 1 << 20},
		Snap:   osd.SnapContext{Seq: 7, Snaps: []uint64{7, 4}},
		OnFull: osd.FullFail,
	}
	op.Write(65536, []byte("data"))
	o := osd.Object{Pool: 3, Name: "10000000000.00000000"}
	err := c.Submit(ctx, o, op, func(reply *osd.Reply, err error) {
		reply.Release()
		switch {
		case errors.Is(err, osd.ErrBlocklisted):
			// Nothing of this client will ever be written again.
		case errors.Is(err, osd.ErrFull), errors.Is(err, osd.ErrQuota):
			// Tell the writer.
		}
	})
	if err != nil {
		log.Print(err) // not submitted
	}
	c.Flush(ctx)
}
