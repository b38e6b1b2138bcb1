//go:build !unix

package program

import (
	"os"
	"os/exec"
)

const hasGroups = false

var killSignal, termSignal = os.Kill, os.Kill

func shell(command string) *exec.Cmd { return exec.Command("cmd", "/C", command) }

func ownGroup(*exec.Cmd, bool) {}

func awaitExit(int) bool { return false }

func unread(*os.File) int { return 0 }

func signalGroup(p *os.Process, _ os.Signal) { _ = p.Kill() }

func describe(state *os.ProcessState) string {
	if state == nil {
		return "ended in an unknown way"
	}
	return state.String()
}
