package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"capstan/config"
)

func checkCommand() *cobra.Command {
	var (
		file    string
		online  bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "check a configuration file without serving it",
		Long: "check names file, line and key of everything that is wrong with a configuration file, and\n" +
			"prints the exports it describes. With --online it also opens what stands behind them and says\n" +
			"what is missing there.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
			}
			c, err := config.Load(file)
			if err != nil {
				if problems, ok := err.(config.Problems); ok {
					for _, p := range problems {
						fmt.Fprintln(cmd.ErrOrStderr(), p)
					}
					noun := "problems"
					if len(problems) == 1 {
						noun = "problem"
					}
					fmt.Fprintf(cmd.ErrOrStderr(), "%d %s\n", len(problems), noun)
					return exitError(1)
				}
				return err
			}
			if err := printExports(cmd.OutOrStdout(), c); err != nil {
				return err
			}
			if !online {
				return nil
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return checkOnline(ctx, cmd.OutOrStdout(), c)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "/etc/capstan/capstan.yaml", "configuration `file`")
	cmd.Flags().BoolVar(&online, "online", false, "open the file systems behind the exports too")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long --online may take")
	return cmd
}

func printExports(w io.Writer, c *config.Config) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PATH\tID\tENGINE\tVERSIONS\tSQUASH\tACCESS")
	for _, e := range c.Exports {
		var rules []string
		for _, a := range e.Access {
			access := a.Access
			if e.ReadOnly && access == "rw" {
				access = "ro"
			}
			if a.Squash != "" {
				access += ",squash=" + a.Squash
			}
			rules = append(rules, strings.Join(a.Clients, " ")+"("+access+")")
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", e.Path, e.ID, e.Engine, strings.Join(e.Versions, " "), e.Squash, strings.Join(rules, " "))
	}
	return t.Flush()
}

// checkOnline opens each export's engine, asks it for its root and closes it.
// It does so as a stranger, without the state directory: a gateway that serves
// this configuration keeps its handle tables, and its sessions at the cluster,
// which its successor would evict.
func checkOnline(ctx context.Context, w io.Writer, c *config.Config) error {
	stranger := *c
	stranger.Server.StateDir = ""
	mounts, err := stranger.Mounts()
	if err != nil {
		return err
	}
	bad := 0
	for i, m := range mounts {
		err := func() error {
			if e := c.Exports[i]; e.Engine == "libcephfs" {
				if err := checkCeph(ctx, e.LibCephFS); err != nil {
					return err
				}
			}
			v, err := m.Engine.Open(ctx, func(error) {})
			if err != nil {
				return err
			}
			_, err = v.Root(ctx)
			if closeErr := v.Close(ctx); err == nil {
				err = closeErr
			}
			return err
		}()
		if err != nil {
			bad++
			for line := range strings.Lines(err.Error()) { // one for each thing that is missing
				fmt.Fprintf(w, "%s: %s\n", m.Export.Path, strings.TrimSuffix(line, "\n"))
			}
			continue
		}
		fmt.Fprintf(w, "%s: ok\n", m.Export.Path)
	}
	if bad > 0 {
		return exitError(1)
	}
	return nil
}
