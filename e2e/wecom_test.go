//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
)

const movingMessages = "Move the messages to another store"

// TestWecomPage types what docs/pipelines/wecom.md says. Its Chinese twin has the same commands, as the test of
// translations sees to. Messages move to another file in place of Kafka.
func TestWecomPage(t *testing.T) {
	t.Parallel()
	typeWecomPage(t, "sqlite:new.db", "Tutorial", "Replies", movingMessages)
}

// TestWecomMovesToKafka types what the page says about moving, with a Kafka cluster.
func TestWecomMovesToKafka(t *testing.T) {
	t.Parallel()
	typeWecomPage(t, kafkaURL(t), movingMessages)
}

// typeWecomPage starts what the tutorial starts, and types what these sections of the page say. Messages move to
// another store than the page names.
func typeWecomPage(t *testing.T, target string, titles ...string) {
	t.Helper()
	in, sim, callback, tried := newIncident(t, ""), freeAddress(t), freeAddress(t), 0
	typed := strings.NewReplacer("127.0.0.1:9121", sim, "127.0.0.1:9120", callback, "store: sqlite:wecom.db\n", "",
		"'kafka://localhost:9092?group=qywx-consumers'", target)
	page := sections(t, "../docs/pipelines/wecom.md")
	setting, found := strings.CutPrefix(strings.TrimSpace(typed.Replace(page[movingMessages][0].code)), "export ")
	if !found || setting != "PAWL_MIRROR="+target {
		t.Fatalf("the page says %q", setting)
	}
	in.env = append(in.env, setting)
	for _, title := range []string{"Tutorial", "Replies", movingMessages} {
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
				aside(t, in.dir, "export PAWL_STORE=sqlite:pawl.db PAWL_MIRROR='"+target+"'; "+code)
				if strings.HasPrefix(code, "pawl wecom sim") {
					in.until("curl -sS http://"+sim+"/truth", `…"said"…`)
				}
			case slices.Contains(titles, title) && b.language == "sh" && !strings.HasPrefix(code, "export "):
				in.typeLines(code, answer)
				tried++
			}
		}
	}
	if tried < 5*len(titles) {
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
