// Command pawl is the command line of Pawl.
package main

import (
	"os"
	_ "time/tzdata" // zones, where the machine has none

	"github.com/pawl-dev/pawl/internal/cli"
)

// version is set by the linker; empty, the toolchain's own stamp counts.
var version string

func main() {
	if code, ran := asInit(); ran {
		os.Exit(code)
	}
	os.Exit(cli.Main(version))
}
