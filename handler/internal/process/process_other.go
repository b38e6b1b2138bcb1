//go:build !unix

package process

import (
	"os"
	"os/exec"
)

const hasGroups = false

var killSignal, termSignal = os.Kill, os.Kill

// Shell returns the command line as cmd understands it.
func Shell(command string) *exec.Cmd { return exec.Command("cmd", "/C", command) }

func ownGroup(*exec.Cmd, bool) {}

func signalGroup(p *os.Process, _ os.Signal) { _ = p.Kill() }

func resume(*os.Process) {}

// Describe says how a program ended.
func Describe(state *os.ProcessState) string {
	if state == nil {
		return "ended in an unknown way"
	}
	return state.String()
}
