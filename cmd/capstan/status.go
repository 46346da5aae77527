package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"capstan/config"
	"capstan/server"
)

func statusCommand() *cobra.Command {
	var (
		file, socket string
		asJSON       bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show a running server's clients, sessions, open files and exports",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				c, err := config.Load(file)
				if err != nil {
					return fmt.Errorf("%w\n(--socket names the control socket without a configuration file)", err)
				}
				if socket = c.Server.Control; socket == "" {
					return fmt.Errorf("%s has no server.control socket", file)
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			st, err := server.ReadStatus(ctx, socket)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(st)
			}
			return printStatus(cmd.OutOrStdout(), st, time.Now())
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "/etc/capstan/capstan.yaml", "configuration `file`, for its control socket")
	cmd.Flags().StringVar(&socket, "socket", "", "control `socket` of the server")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all there is, as JSON")
	return cmd
}

func printStatus(w io.Writer, st *server.Status, now time.Time) error {
	fmt.Fprintf(w, "capstan %s, up %s, on %s\n", st.Version, now.Sub(st.Started).Round(time.Second), strings.Join(st.Addresses, " "))
	fmt.Fprintf(w, "connections %d, calls running %d, files kept open for stateless calls %d\n\n", st.RPC.Conns, st.RPC.Calls, st.OpenFiles)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPORT\tID\tENGINE\tACCESS\tVERSIONS\tSTATE")
	for _, e := range st.Exports {
		access, health := "rw", "ok"
		if e.ReadOnly {
			access = "ro"
		}
		if e.Error != "" {
			health = e.Error
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", e.Path, e.ID, e.Engine, access, e.Versions, health)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	n := st.NFS4
	fmt.Fprintf(w, "\nNFSv4: %d clients (%d expired), %d sessions, %d opens, %d locks\n", len(n.Clients), n.Courtesy, n.Sessions, n.Opens, n.Locks)
	if len(n.Clients) == 0 {
		return nil
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLIENT\tADDRESS\tVERSION\tSESSIONS\tOPENS\tLOCKS\tIDLE\tOWNER")
	for _, c := range n.Clients {
		idle := c.Idle.Round(time.Second).String()
		if c.Expired {
			idle += " (expired)"
		}
		fmt.Fprintf(t, "%x\t%s\t4.%d\t%d\t%d\t%d\t%s\t%s\n", uint64(c.ID), c.Addr, c.Minor, len(c.Sessions), c.Opens, c.Locks, idle, c.Owner)
	}
	return t.Flush()
}
