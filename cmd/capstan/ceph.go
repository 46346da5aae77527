package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"capstan/cephfs/cluster"
	"capstan/cephfs/crush"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/osd"
	"capstan/cephfs/osdmap"
)

// cephFlags are those of `capstan ceph`.
type cephFlags struct {
	conf, keyring, name, id string
	namespace               string
	timeout                 time.Duration
	verbose                 bool
}

func cephCommand() *cobra.Command {
	var f cephFlags
	cmd := &cobra.Command{
		Use:   "ceph",
		Short: "talk to a Ceph cluster with capstan's own client",
		Long: "ceph shows what capstan's own Ceph client makes of a cluster, with the answers of Ceph's tools:\n" +
			"it reads ceph.conf, the keyring, CEPH_CONF, CEPH_KEYRING and CEPH_ARGS as they do. What it does to\n" +
			"objects waits for a full pool or a lost OSD as long as it takes, and says so; Ctrl-C ends it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.New("say what to do: `capstan ceph --help` lists it")
		},
	}
	p := cmd.PersistentFlags()
	p.StringVarP(&f.conf, "conf", "c", "", "configuration `file`")
	p.StringVarP(&f.keyring, "keyring", "k", "", "keyring `file`")
	p.StringVarP(&f.name, "name", "n", "", "who to be, `type.id`")
	p.StringVar(&f.id, "id", "", "who to be, the `id` of client.id")
	p.DurationVar(&f.timeout, "connect-timeout", connectTimeout, "how long connecting may take")
	p.BoolVarP(&f.verbose, "verbose", "v", false, "tell about connections")
	cmd.AddCommand(
		&cobra.Command{Use: "status", Short: "the cluster's health, as `ceph status`", Args: cobra.NoArgs, RunE: f.run(cephStatus)},
		&cobra.Command{Use: "pools", Short: "the pools: id, name, kind, copies or pieces, placement groups", Args: cobra.NoArgs, RunE: f.run(cephPools)},
		&cobra.Command{Use: "ping [DAEMON]...", Short: "ask daemons (mon.a, osd.0, mds.x, mgr) for their version; all monitors by default", RunE: f.run(cephPing)},
	)
	for _, c := range []*cobra.Command{
		{Use: "map POOL OBJECT", Short: "where an object is, as `ceph osd map`", Args: cobra.ExactArgs(2), RunE: f.run(cephMap)},
		{Use: "put POOL OBJECT FILE", Short: "store a file, or standard input (-), as an object", Long: "put writes an object in pieces of 4 MiB: if it fails half-way, the object has what was written so far.\n" +
			"An object is one piece of storage, not a file: OSDs refuse more than osd_max_object_size (128 MiB).", Args: cobra.ExactArgs(3), RunE: f.run(cephPut)},
		{Use: "get POOL OBJECT FILE", Short: "fetch an object into a file, or to standard output (-)", Long: "get writes the file as it reads: if it fails half-way, the file has what was read so far.", Args: cobra.ExactArgs(3), RunE: f.run(cephGet)},
		{Use: "stat POOL OBJECT", Short: "size and time of an object, as `rados stat`", Args: cobra.ExactArgs(2), RunE: f.run(cephStat)},
	} {
		c.Flags().StringVarP(&f.namespace, "namespace", "N", "", "`namespace` of the object")
		cmd.AddCommand(c)
	}
	return cmd
}

// run connects, does what a command does, and closes the connection.
func (f *cephFlags) run(do func(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		o := cluster.Options{Conf: f.conf, Keyring: f.keyring}
		switch {
		case f.name != "" && f.id != "":
			return errors.New("--name and --id: one is enough")
		case f.name != "":
			n, err := denc.ParseEntityName(f.name)
			if err != nil {
				return err
			}
			o.Name = n
		case f.id != "":
			o.Name = denc.EntityName{Type: denc.TypeClient, ID: f.id}
		}
		if f.verbose {
			o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		c, err := connectCluster(ctx, o, f.timeout)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(ctx, f, c, cmd, args)
	}
}

// connectTimeout is how long connecting may take if nothing else is said.
const connectTimeout = 30 * time.Second

// connectCluster connects within a time.
func connectCluster(ctx context.Context, o cluster.Options, timeout time.Duration) (*cluster.Cluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	return cluster.Connect(ctx, o)
}

func cephStatus(ctx context.Context, _ *cephFlags, c *cluster.Cluster, cmd *cobra.Command, _ []string) error {
	r, err := c.Mon.Command(ctx, mon.Command{Args: mon.Args{"prefix": "status", "format": ""}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSuffix(string(r.Output), "\n"))
	return err
}

func cephPools(ctx context.Context, _ *cephFlags, c *cluster.Cluster, cmd *cobra.Command, _ []string) error {
	m, err := c.Latest(ctx)
	if err != nil {
		return err
	}
	ids := make([]int64, 0, len(m.Pools))
	for id := range m.Pools {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tTYPE\tSIZE\tPGS\tFLAGS")
	for _, id := range ids {
		p := m.Pools[id]
		kind := "replicated"
		if p.IsErasure() {
			kind = "erasure"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%s\n", id, m.PoolNames[id], kind, p.Size, p.PGNum, p.Flags)
	}
	return t.Flush()
}

func cephPing(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, names []string) error {
	if len(names) == 0 {
		for _, m := range c.Mon.MonMap().Monitors {
			names = append(names, "mon."+m.Name)
		}
	}
	bad := false
	for _, name := range names {
		began := time.Now()
		within, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no answer within %v", f.timeout))
		r, err := c.Mon.Tell(within, name, mon.Command{Args: mon.Args{"prefix": "version"}})
		if err != nil && ctx.Err() == nil && within.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(within), err)
		}
		cancel()
		var v struct {
			Version string `json:"version"`
		}
		if err == nil {
			err = r.Decode(&v)
		}
		if err != nil {
			bad = true
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, strings.TrimPrefix(err.Error(), name+": "))
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, answered in %.1f ms\n", name, v.Version, float64(time.Since(began).Microseconds())/1000)
	}
	if bad {
		return exitError(1)
	}
	return nil
}

// object names an object by the arguments of a command.
func (f *cephFlags) object(ctx context.Context, c *cluster.Cluster, args []string) (osd.Object, error) {
	if args[1] == "" {
		return osd.Object{}, errors.New("an object has to have a name")
	}
	pool, err := c.Pool(ctx, args[0])
	return osd.Object{Pool: pool, Namespace: f.namespace, Name: args[1]}, err
}

func cephMap(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, args []string) error {
	o, err := f.object(ctx, c, args)
	if err != nil {
		return err
	}
	m, err := c.Latest(ctx)
	if err != nil {
		return err
	}
	raw, ok := m.ObjectPG(osdmap.Object{Pool: o.Pool, Namespace: o.Namespace, Name: o.Name})
	if !ok {
		return fmt.Errorf("pool %q: %w", args[0], osd.ErrNoPool)
	}
	pg := m.Fold(raw)
	var p osdmap.Placement
	m.Place(pg, &p)
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "osdmap e%d pool '%s' (%d) object '%s' -> pg %s (%s) -> up (%s, p%d) acting (%s, p%d)\n",
		m.Epoch, args[0], o.Pool, name, raw, pg, osdSet(p.Up), p.UpPrimary, osdSet(p.Acting), p.ActingPrimary)
	return err
}

// osdSet prints OSDs as Ceph does: [2,NONE,0].
func osdSet(osds []int32) string {
	b := []byte{'['}
	for i, o := range osds {
		if i > 0 {
			b = append(b, ',')
		}
		if o < 0 || o == crush.ItemNone {
			b = append(b, "NONE"...)
		} else {
			b = strconv.AppendInt(b, int64(o), 10)
		}
	}
	return string(append(b, ']'))
}

// objectName names an object as the user does: POOL/OBJECT, or
// POOL/NAMESPACE/OBJECT.
func objectName(args []string, o osd.Object) string {
	if o.Namespace != "" {
		return args[0] + "/" + o.Namespace + "/" + args[1]
	}
	return args[0] + "/" + args[1]
}

// objectError names an object as the user does, and what an EPERM is about.
func objectError(args []string, o osd.Object, err error) error {
	var e *osd.Error
	if !errors.As(err, &e) {
		return err
	}
	err = fmt.Errorf("%s %s: %w", e.Op, objectName(args, o), e.Err)
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w (do the user's osd caps allow it?)", err)
	}
	return err
}

// chunk is how much of an object goes in one operation.
const chunk = 4 << 20

func cephPut(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, args []string) error {
	o, err := f.object(ctx, c, args)
	if err != nil {
		return err
	}
	in := cmd.InOrStdin()
	if args[2] != "-" {
		file, err := os.Open(args[2])
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	// A pool without overwrites takes whole stripes only, but for the last.
	align := c.OSD.Alignment(o.Pool)
	buf := make([]byte, (chunk+align-1)/align*align)
	w := &waiter{c: c, args: args, at: o, write: true, errs: cmd.ErrOrStderr(), tick: patience}
	var off uint64
	for {
		n, err := io.ReadFull(in, buf)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		switch {
		case off == 0:
			err = w.do(ctx, func(ctx context.Context) error { return c.OSD.WriteFull(ctx, o, buf[:n]) })
		case n > 0:
			err = w.do(ctx, func(ctx context.Context) error { return c.OSD.Append(ctx, o, buf[:n]) })
		default:
			err = nil
		}
		if err != nil {
			return err
		}
		off += uint64(n)
		if end {
			return nil
		}
	}
}

func cephGet(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, args []string) (result error) {
	o, err := f.object(ctx, c, args)
	if err != nil {
		return err
	}
	buf := make([]byte, chunk)
	w := &waiter{c: c, args: args, at: o, errs: cmd.ErrOrStderr(), tick: patience}
	n, off := 0, uint64(0)
	read := func(ctx context.Context) (err error) {
		n, err = c.OSD.Read(ctx, o, off, buf)
		return err
	}
	// The first read tells whether there is such an object, before a file is made.
	if err := w.do(ctx, read); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if args[2] != "-" {
		file, err := os.Create(args[2])
		if err != nil {
			return err
		}
		defer func() { result = errors.Join(result, file.Close()) }() // a full file system may say so here first
		out = file
	}
	for {
		if _, err := out.Write(buf[:n]); err != nil {
			return err
		}
		if n < len(buf) {
			return nil
		}
		off += uint64(n)
		if err := w.do(ctx, read); err != nil {
			return err
		}
	}
}

func cephStat(ctx context.Context, f *cephFlags, c *cluster.Cluster, cmd *cobra.Command, args []string) error {
	o, err := f.object(ctx, c, args)
	if err != nil {
		return err
	}
	var size uint64
	var mtime time.Time
	w := &waiter{c: c, args: args, at: o, errs: cmd.ErrOrStderr(), tick: patience}
	if err := w.do(ctx, func(ctx context.Context) (err error) {
		size, mtime, err = c.OSD.Stat(ctx, o)
		return err
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s/%s mtime %s, size %d\n", args[0], o.Name, mtime.UTC().Format("2006-01-02T15:04:05.000000-0700"), size)
	return err
}
