//go:build unix

package e2e

import (
	"strings"
	"testing"
)

// TestForwardPage does what the tutorials of docs/pipelines/forward.md and its twin say.
func TestForwardPage(t *testing.T) {
	for page, title := range map[string]string{"forward.md": "Tutorial", "forward.zh-CN.md": "教程"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			in, sim, tried := newIncident(t, ""), freeAddress(t), 0
			blocks := sections(t, "../docs/pipelines/"+page)[title]
			for i, b := range blocks {
				b.code = strings.ReplaceAll(b.code, "127.0.0.1:8081", sim)
				file := fileName.FindStringSubmatch(b.before)
				switch {
				case file != nil:
					in.write(file[1], strings.Replace(b.code, "store: sqlite:forward.db\n", "", 1))
				case strings.Contains(b.before, "In a terminal of its own"), strings.Contains(b.before, "终端中运行"):
					aside(t, in.dir, "export PAWL_STORE=sqlite:pawl.db; "+b.code)
				case b.language == "sh":
					typed, looks := b.code, b.code
					if first, rest, ok := strings.Cut(b.code, "\n"); ok && rest != "" &&
						strings.HasPrefix(first, "curl") {
						in.until(first, `{"message_ids"…`)
						looks = rest
					}
					if looks == typed && strings.Contains(typed, "rules add") {
						in.try(typed, blocks[i+1].code, 0, false)
					} else {
						in.until(looks, blocks[i+1].code)
					}
					tried++
				}
			}
			if tried < 4 {
				t.Errorf("only %d commands were found", tried)
			}
		})
	}
}
