//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// TestWecomPage types what docs/pipelines/wecom.md says. Its Chinese twin has the same commands, as the test of
// translations sees to. Messages move to another file in place of Kafka.
func TestWecomPage(t *testing.T) {
	t.Parallel()
	in, sim, callback, tried := newIncident(t, ""), freeAddress(t), freeAddress(t), 0
	typed := strings.NewReplacer("127.0.0.1:9121", sim, "127.0.0.1:9120", callback, "store: sqlite:wecom.db\n", "",
		"'kafka://localhost:9092?group=qywx-consumers'", "sqlite:new.db")
	const moving = "Move the messages to another store"
	page := sections(t, "../docs/pipelines/wecom.md")
	setting, found := strings.CutPrefix(strings.TrimSpace(typed.Replace(page[moving][0].code)), "export ")
	if !found || setting != "PAWL_MIRROR=sqlite:new.db" {
		t.Fatalf("the page says %q", setting)
	}
	in.env = append(in.env, setting)
	for _, title := range []string{"Tutorial", "Replies", moving} {
		for i, b := range page[title] {
			code, answer := typed.Replace(b.code), ""
			if i+1 < len(page[title]) && page[title][i+1].language == "text" {
				answer = page[title][i+1].code
			}
			file := fileName.FindStringSubmatch(b.before)
			switch {
			case file != nil:
				in.write(file[1], code)
			case strings.Contains(b.before, "In a terminal of its own"):
				aside(t, in.dir, "export PAWL_STORE=sqlite:pawl.db "+setting+"; "+code)
				if strings.HasPrefix(code, "pawl wecom sim") {
					in.until("curl -sS http://"+sim+"/truth", `…"said"…`)
				}
			case b.language == "sh" && !strings.HasPrefix(code, "export "):
				in.typeLines(code, answer)
				tried++
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d pieces of code were found on the page", tried)
	}
}

// typeLines types all lines but the last once, and that one until it answers what is wanted.
func (in *incident) typeLines(code, answer string) {
	in.Helper()
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for _, line := range lines[:len(lines)-1] {
		in.must(line)
	}
	in.until(lines[len(lines)-1], answer)
}
