// Package contractdoc writes docs/contract.md: every sentence of the contract and
// every backend.
package contractdoc

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
	"github.com/pawl-dev/pawl/store/storetest"
)

var update = flag.Bool("update", false, "write docs/contract.md anew")

const document = "../../../docs/contract.md"

// column is a backend of the table.
type column struct {
	store.Description
	planned  bool
	schema   bool
	txStalls bool // an open transaction of the caller stalls others
}

func columns() []column {
	_, sqliteSchema := any((*sqlite.Store)(nil)).(store.Migrator)
	_, postgresSchema := any((*postgres.Store)(nil)).(store.Migrator)
	return append([]column{
		{Description: memory.Description()},
		{Description: sqlite.Description(), schema: sqliteSchema, txStalls: true},
		{Description: postgres.Description(), schema: postgresSchema},
		{Description: kafka.Description()},
	}, planned()...)
}

// TestContractDocument fails when the document is not what the declarations say.
func TestContractDocument(t *testing.T) {
	want := render(columns())
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("docs/contract.md is out of date: go test ./store/storetest/contractdoc -update")
	}
}

// The marks of a cell.
const (
	whole     = "●"
	different = "◐"
	none      = "–"
)

// cell says how a backend keeps a sentence.
func (c *column) cell(s *storetest.Sentence) string {
	mark := whole
	for _, need := range s.Needs {
		support := c.Capabilities[need]
		if !support.Kept {
			return none
		}
		if support.Note != "" {
			mark = different
		}
	}
	if s.OpenTx && c.txStalls || s.Schema && !c.schema {
		return none
	}
	return mark
}

func (c *column) title() string {
	if c.planned {
		return c.Name + " (planned)"
	}
	return c.Name
}

const preamble = `# The contract, sentence by sentence

Generated from the suite and from what the backends declare of themselves; do not
edit. ` + "`go test ./store/storetest/contractdoc -update`" + ` writes it, and CI fails when it is
out of date.

Every line is a test of ` + "`store/storetest`" + ` of that name. A backend keeps the sentence
(●), keeps it in its own way (◐, see the notes), or refuses it (–): the suite runs
every test that is not refused, and reports the others by name. What is planned is
not there yet.
`

func render(columns []column) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("\n## Capabilities\n\n")
	header(&b, "capability", columns)
	for _, capability := range store.AllCapabilities {
		fmt.Fprintf(&b, "| `%s` |", capability)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.cell(&storetest.Sentence{Needs: []store.Capability{capability}}))
		}
		b.WriteString("\n")
	}
	notes(&b, columns)
	theme := ""
	for _, s := range storetest.Sentences() {
		if s.Theme != theme {
			theme = s.Theme
			fmt.Fprintf(&b, "\n## %s%s\n\n", strings.ToUpper(theme[:1]), theme[1:])
			header(&b, "sentence", columns)
		}
		fmt.Fprintf(&b, "| %s<br>`%s` |", strings.ReplaceAll(s.Text, "|", "\\|"), s.Name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.cell(&s))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func header(b *strings.Builder, first string, columns []column) {
	fmt.Fprintf(b, "| %s |", first)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.title())
	}
	b.WriteString("\n|---|" + strings.Repeat(":-:|", len(columns)) + "\n")
}

// notes say how, and why not.
func notes(b *strings.Builder, columns []column) {
	for _, c := range columns {
		fmt.Fprintf(b, "\n**%s** (`%s`). Durable means: %s.\n\n", c.title(), c.URL, c.Durability)
		for _, capability := range store.AllCapabilities {
			if s := c.Capabilities[capability]; !s.Kept {
				fmt.Fprintf(b, "- `%s` refused: %s\n", capability, s.Note)
			} else if s.Note != "" {
				fmt.Fprintf(b, "- `%s`: %s\n", capability, s.Note)
			}
		}
	}
}

// TestPlansAreWhole: what is planned says why it refuses what it refuses.
func TestPlansAreWhole(t *testing.T) {
	for _, c := range planned() {
		for _, capability := range store.AllCapabilities {
			if s, said := c.Capabilities[capability]; !said || !s.Kept && s.Note == "" {
				t.Errorf("%s says nothing of %s", c.Name, capability)
			}
		}
	}
}
