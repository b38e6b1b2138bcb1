//go:build unix

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// chapters are what every page of the runbook has, in this order.
var chapters = []string{"Meaning", "Impact", "Confirm", "Likely causes", "Steps", "Verify it is over",
	"Undo", "Prevent"}

// TestRunbookPagesAreComplete wants the same chapters on every page, with commands.
func TestRunbookPagesAreComplete(t *testing.T) {
	for _, name := range pages(t) {
		text := string(read(t, "../docs/runbook/"+name))
		var titles []string
		for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1) {
			titles = append(titles, m[1])
		}
		if !slices.Equal(titles, chapters) {
			t.Errorf("%s has the chapters %q, want %q", name, titles, chapters)
		}
		if !strings.HasPrefix(text, "# "+strings.TrimSuffix(name, ".md")+"\n") {
			t.Errorf("%s has another name at its top", name)
		}
		for _, c := range []string{"Confirm", "Steps", "Verify it is over"} {
			if len(sections(t, "../docs/runbook/"+name)[c]) == 0 {
				t.Errorf("%s: nothing is typed to %q", name, c)
			}
		}
		if n := strings.Count(text, "\n"); n > 120 {
			t.Errorf("%s has %d lines; who reads it has no time", name, n)
		}
	}
}

// TestRunbook causes what each page is about, does what the page says, and wants it
// to print what the page says.
func TestRunbook(t *testing.T) {
	all := faults()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, name := range pages(t) {
		name := strings.TrimSuffix(name, ".md")
		f, ok := all[name]
		if !ok {
			t.Errorf("nothing causes %s", name)
			continue
		}
		wg.Go(func() { // they mostly wait, whatever the number of processors
			t.Run(name, func(t *testing.T) { follow(t, name, f) })
		})
	}
}

// TestTriage asks the questions of the runbook's first page while nothing is wrong.
func TestTriage(t *testing.T) {
	in := newIncident(t, obeys)
	behaves(good)(in)
	in.start()
	in.send(1, "mail")
	in.until("pawl topics ls mail -o json", `…"leased":0…"acked_total":1…`)
	asked := sections(t, "../docs/runbook/README.md")["Five minutes"]
	in.carry(asked, true)
	if len(asked) != 6 {
		t.Errorf("%d questions, want 6", len(asked))
	}
}

// TestOperationsPage does what docs/operations.md says, beside a daemon.
func TestOperationsPage(t *testing.T) {
	in := newIncident(t, "")
	tried := 0
	page := sections(t, "../docs/operations.md")
	for _, title := range []string{"First start", "Backups", "Upgrades", "Draining and deploys"} {
		for _, b := range page[title] {
			if b.language == "yaml" {
				in.write("pawl.yaml", b.code)
			}
		}
		in.carry(page[title], false)
		tried += len(page[title])
		if title == "First start" {
			in.start()
		}
	}
	if tried < 9 {
		t.Errorf("only %d pieces of code were found on the page", tried)
	}
}

// follow has an incident, and a person who follows the page.
func follow(t *testing.T, name string, f fault) {
	in := newIncident(t, f.config)
	if f.store != nil {
		f.store(in)
	}
	if !f.down {
		in.start()
	}
	in.calm = in.scrape()
	f.cause(in)
	page := sections(t, "../docs/runbook/"+name+".md")
	in.carry(page["Confirm"], true)
	ill := in.scrape()
	in.mend, in.mendAt = f.mend, f.mendAt
	in.carry(page["Steps"], false)
	if in.mend != nil {
		in.mend(in)
		in.mend = nil
	}
	in.carry(page["Verify it is over"], true)
	if f.unproved == "" {
		prove(t, name, in.calm, ill, in.scrape())
	}
	in.carry(page["Undo"], false)
}

// carry does the blocks of a chapter.
func (in *incident) carry(bs []block, repeat bool) {
	in.Helper()
	for i, b := range bs {
		if b.language != "sh" {
			continue
		}
		if in.mend != nil && in.mendAt != "" && strings.HasPrefix(b.paragraph, in.mendAt) {
			in.mend(in)
			in.mend = nil
		}
		if strings.HasPrefix(b.paragraph, "2. Start it") {
			in.start()
			continue
		}
		want := ""
		if i+1 < len(bs) && bs[i+1].language == "text" {
			want = bs[i+1].code
		}
		in.do(b, want, repeat || !mutates.MatchString(b.code))
	}
}

// mutates tells of commands that must not be repeated until they please.
var mutates = regexp.MustCompile(`pawl (work|skip|topics (pause|resume|set)|dead (replay|export|import))`)
