package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestOffered carries commands out as the API does, over the store of the server and in the name of a person.
func TestOffered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	file := "pipelines:\n  tg:\n    kind: forward\n    token: 777:SIM\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &session{System: System{Getenv: func(string) string { return "" }}, configPath: path}
	opened, all := memory.New(memory.Config{}), s.offered()
	run := func(name string, dry bool, flags map[string][]string, args ...string) operate.CommandAnswer {
		t.Helper()
		i := slices.IndexFunc(all, func(c operate.Command) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("%s is not offered", name)
		}
		return all[i].Run(context.Background(), operate.CommandCall{Store: opened, Who: "ann", Args: args, Flags: flags,
			DryRun: dry})
	}
	rule := map[string][]string{"from": {"-1"}, "to": {"-2", "-3"}, "priority": {"vip"}}
	if a := run("forward rules add", false, rule); a.Code != 0 {
		t.Fatalf("%+v", a)
	}
	if a := run("forward rules ls", false, nil); len(a.Rows) != 1 || a.Rows[0][2] != "-2, -3" || a.Columns[0] != "ID" {
		t.Errorf("%+v", a)
	}
	if a := run("forward rules show", false, nil, "7"); a.Code == 0 || a.Error == "" || a.Next == "" {
		t.Errorf("a rule that there is not: %+v", a)
	}
	if a := run("forward rules set", true, map[string][]string{"priority": {"bulk"}}, "1"); a.Code != 0 {
		t.Errorf("%+v", a)
	}
	if a := run("forward rules ls", false, nil); a.Rows[0][3] != "High (50)" {
		t.Errorf("a dry run changed a rule: %+v", a)
	}
	other := map[string][]string{"store": {"sqlite:" + path}}
	if a := run("forward rules ls", false, other); a.Code != exitUsage || strings.Contains(a.Text, "777:SIM") {
		t.Errorf("another store: %+v", a)
	}
	audit, err := operate.ListAudit(context.Background(), opened, operate.AuditFilter{})
	if err != nil || len(audit) != 1 || audit[0].Who != "ann" {
		t.Errorf("%+v, %v", audit, err)
	}
	if err := json.NewEncoder(io.Discard).Encode(run("forward rules ls", false, nil)); err != nil {
		t.Error(err)
	}
}

// TestOfferedCommandsHaveAPage looks for the page of the console on which each command that changes something has its
// form: the pages of pipelines make one for every command of theirs. Schedules and the state have routes instead.
func TestOfferedCommandsHaveAPage(t *testing.T) {
	elsewhere := map[string]string{
		"reclaim": "the page of workers takes back what one of them holds",
		"skip":    "the page of a message skips it, the page of a Kafka cluster by partition",
	}
	pages := map[string]bool{}
	for _, k := range serve.Kinds() {
		pages[k.Name] = true
	}
	words, err := os.ReadFile("../../console/sentences/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{System: System{Getenv: func(string) string { return "" }}}
	for _, c := range s.offered() {
		said := []string{c.Summary}
		for _, f := range c.Flags {
			said = append(said, f.Help)
		}
		for _, text := range said {
			if !strings.Contains("\n"+string(words), "\n"+text+" = ") {
				t.Errorf("%s: the console has no Chinese for %q", c.Name, text)
			}
		}
		noun, _, _ := strings.Cut(c.Name, " ")
		if noun == "schedules" || noun == "state" {
			t.Errorf("%s is offered, and has a route", c.Name)
		}
		if c.Changes && !pages[noun] && elsewhere[c.Name] == "" {
			t.Errorf("%s has no page in the console, and no reason why", c.Name)
		}
	}
}
