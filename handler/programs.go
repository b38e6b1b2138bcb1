package handler

import (
	"io"

	"github.com/pawl-dev/pawl/handler/internal/process"
)

// Launcher starts programs that do not outlive this process, even if it is killed.
// All handlers of a process can share one. Close it when they are done.
type Launcher = process.Launcher

// Output is where programs write to: whole lines at a time, so that those of
// several do not mix within a line. A nil Output drops everything.
type Output = process.Output

// NewLauncher returns a launcher.
func NewLauncher() (*Launcher, error) { return process.NewLauncher() }

// NewOutput returns an output that writes to w. failed, if not nil, is told of the
// first write that fails.
func NewOutput(w io.Writer, failed func(error)) *Output { return process.NewOutput(w, failed) }

// AttrEnded is a fact of the failure of a delivery with which a kept program ended: see [pawl.WithAttrs].
const AttrEnded = "program_ended"
