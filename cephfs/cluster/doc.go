// Package cluster connects to a Ceph cluster: it reads ceph.conf and a keyring
// and puts together who the client is (package auth), its one messenger
// (msgr), the monitors (mon), the osdmap (osdmap) and object operations (osd).
//
//	c, err := cluster.Connect(ctx, cluster.Options{Conf: "/etc/ceph/ceph.conf"})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	pool, err := c.Pool(ctx, "data")
//	if err != nil {
//		return err
//	}
//	err = c.OSD.WriteFull(ctx, osd.Object{Pool: pool, Name: "greeting"}, []byte("hello"))
//
// The package starts no goroutine and holds no lock.
package cluster
