// Command capstan is an NFS server (3, 4.1, 4.2) that exports CephFS and other
// file systems. `capstan help` lists its commands.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"capstan/cephfs/libcephfs"
)

// version is set by the linker.
var version = "dev"

// exitError ends the command with a code of its own after it has said
// everything itself.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	root := &cobra.Command{
		Use:           "capstan",
		Short:         "an NFS server for CephFS",
		Long:          "capstan serves CephFS, and other file systems, over NFS 3, 4.1 and 4.2.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), cephCommand(), checkCommand(), statusCommand(), versionCommand())
	root.CompletionOptions.HiddenDefaultCmd = true
	if err := root.Execute(); err != nil {
		var code exitError
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, "capstan:", err)
		os.Exit(1)
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version, and which engines this build has",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "capstan %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintln(cmd.OutOrStdout(), "engines: memory, local"+libcephfsNote())
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" || s.Key == "-tags" || s.Key == "CGO_ENABLED" {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", s.Key, s.Value)
					}
				}
			}
		},
	}
}

// libcephfsNote says whether the build has the engine that needs a tag.
func libcephfsNote() string {
	if libcephfs.Available {
		return ", libcephfs"
	}
	return " (not libcephfs: " + "built without the tag librados" + ")"
}
