package operate

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

// Command is a command of the command line that the API and the console offer, too, as JSON.
type Command struct {
	Name    string        `json:"name"`    // forward rules add
	Use     string        `json:"use"`     // with its arguments: pawl forward rules set ID
	Summary string        `json:"summary"` // one line
	Help    string        `json:"help,omitempty"`
	Changes bool          `json:"changes"`
	Flags   []CommandFlag `json:"flags"`
	// Run carries it out, as if the one who calls had typed it.
	Run func(context.Context, CommandCall) CommandAnswer `json:"-"`
}

// CommandFlag is a flag of a command, as JSON.
type CommandFlag struct {
	Name    string   `json:"name"`
	Help    string   `json:"help"`
	Type    string   `json:"type"` // bool, texts (it may be repeated) or text
	Default string   `json:"default,omitempty"`
	Choices []string `json:"choices,omitempty"`
}

// CommandCall is a call of a command.
type CommandCall struct {
	Store  store.Store
	Who    string
	Args   []string
	Flags  map[string][]string
	DryRun bool
}

// CommandAnswer is what a command printed, as JSON.
type CommandAnswer struct {
	// Columns and Rows are a table, as the command line prints it; a column that begins with > has numbers.
	Columns []string   `json:"columns,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
	// Text is what it printed beside a table.
	Text string `json:"text,omitempty"`
	// Data is the same for programs: what -o json prints.
	Data any `json:"data,omitempty"`
	// Code is its exit code. What it did not do, why and what to do next are empty if it is 0.
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
	Next  string `json:"next,omitempty"`
}

// Settings reports whether it changes settings or removes something for good: what only an admin may.
func (c *Command) Settings() bool {
	switch c.Verb() {
	case "set", "rm", "discard":
		return c.Changes
	default:
		return false
	}
}

// Verb is the last word of its name.
func (c *Command) Verb() string { return c.Name[strings.LastIndexByte(c.Name, ' ')+1:] }
