package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is the JSON of `pawl version`.
type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Built   string `json:"built"` // when the commit was made
	Dirty   bool   `json:"dirty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: count(0, 0, "nothing"),
		Long: "Prints the version of this binary, what it was built from and with.",
		Example: `  pawl version
  pawl version -o json`,
		RunE: func(*cobra.Command, []string) error {
			v := version(s.version)
			return s.one(v, func(w io.Writer) {
				fmt.Fprintf(w, "pawl %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			})
		},
	}
}

// version gathers what the linker and the toolchain left in the binary.
func version(stamped string) versionInfo {
	v := versionInfo{Version: stamped, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(v.Version, info.Main.Version, "devel")
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Built = setting.Value
		case "vcs.modified":
			v.Dirty = setting.Value == "true"
		}
	}
	return v
}
