package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// backendInfo is a kind of store, as JSON.
type backendInfo struct {
	Name         string           `json:"name"`
	URL          string           `json:"url"`
	Status       string           `json:"status"` // available or planned
	Embedded     bool             `json:"embedded"`
	Durability   string           `json:"durability"`
	Capabilities []capabilityInfo `json:"capabilities"`
}

// capabilityInfo says how a store keeps a capability, as JSON.
type capabilityInfo struct {
	Name string `json:"name"`
	Kept bool   `json:"kept"`
	Note string `json:"note"`
}

func (s *session) stores() *cobra.Command {
	return &cobra.Command{
		Use: "stores", Short: "Show what each kind of store can do", Args: count(0, 0, "nothing"),
		Long: `Shows every kind of store with its URL, what "stored" means there, and which of
Pawl's promises it keeps: yes, differently (with a note), or not at all. It opens
none.`,
		Example: `  pawl stores
  pawl stores -o json`,
		RunE: func(*cobra.Command, []string) error {
			if s.output == formatTable {
				return s.printStores(open.Backends())
			}
			l := s.list()
			for _, b := range open.Backends() {
				l.add(formBackend(&b))
			}
			return l.end("")
		},
	}
}

func formBackend(b *open.Backend) backendInfo {
	info := backendInfo{Name: b.Name, URL: b.URL, Status: "available", Embedded: b.Embedded, Durability: b.Durability,
		Capabilities: []capabilityInfo{}}
	if b.Planned {
		info.Status = "planned"
		return info
	}
	for _, c := range store.AllCapabilities {
		info.Capabilities = append(info.Capabilities, capabilityInfo{string(c), b.Capabilities[c].Kept,
			b.Capabilities[c].Note})
	}
	return info
}

// printStores prints a row per capability and a column per store, and below it
// what is to be said about each.
func (s *session) printStores(backends []open.Backend) error {
	header := []string{""}
	var there []open.Backend
	for _, b := range backends {
		if !b.Planned {
			header = append(header, strings.ToUpper(b.Name))
			there = append(there, b)
		}
	}
	t := newTable(s.out, s.colours(), header...)
	var notes []string
	for _, c := range store.AllCapabilities {
		row := []string{string(c)}
		for _, b := range there {
			support := b.Capabilities[c]
			mark := map[bool]string{true: "yes", false: "no"}[support.Kept]
			if support.Note != "" {
				notes = append(notes, fmt.Sprintf("%s, %s: %s", b.Name, c, support.Note))
				mark += fmt.Sprintf(" (%d)", len(notes))
			}
			row = append(row, mark)
		}
		if err := t.row(row...); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	describeStores(s.out, backends, notes)
	return s.out.Flush()
}

func describeStores(w io.Writer, backends []open.Backend, notes []string) {
	fmt.Fprintln(w)
	for i, n := range notes {
		fmt.Fprintf(w, "(%d) %s\n", i+1, n)
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, b := range backends {
		fmt.Fprintf(w, "%-9s %s\n%-9s %s\n", b.Name, b.URL, "", b.Durability)
	}
}
