package cluster_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"capstan/cephfs/cluster"
	"capstan/cephfs/mon"
	"capstan/cephfs/osd"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := cluster.Connect(ctx, cluster.Options{Conf: "/etc/ceph/ceph.conf"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Mon.Command(ctx, mon.Command{Args: mon.Args{"prefix": "health"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Output))

	pool, err := c.Pool(ctx, "data")
	if err != nil {
		log.Fatal(err)
	}
	o := osd.Object{Pool: pool, Name: "greeting"}
	if err := c.OSD.WriteFull(ctx, o, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := c.OSD.Read(ctx, o, 0, buf)
	fmt.Printf("%q, %v\n", buf[:n], err)
}
