package pawl_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README promises 20 lines of Go that work, in a README that one can read.
func TestReadmeShowsTheExampleThatIsBuilt(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(readme), "\n"); n > 150 {
		t.Errorf("README.md has %d lines; 150 are enough", n)
	}
	source, err := os.ReadFile("examples/hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	main := string(source)[strings.Index(string(source), "func main()"):]
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil || !strings.Contains(string(block[1]), main) {
		t.Error("the Go example in README.md is not what examples/hello/main.go does")
	}
}

// shape is what two languages of a text have in common: the levels of its headings,
// its code, where its links lead, and the rows of its tables.
func shape(text string) map[string][]string {
	fenced := regexp.MustCompile("(?s)```.*?```")
	all, prose := map[string][]string{"code": fenced.FindAllString(text, -1)}, fenced.ReplaceAllString(text, "")
	for name, pattern := range map[string]string{
		"headings": `(?m)^#+ `, "links": `\]\(([^)]+)\)`, "rows": `(?m)^\|`, "figures": `\d+,\d{3}|\d+\.\d+`,
	} {
		all[name] = regexp.MustCompile(pattern).FindAllString(prose, -1)
	}
	return all
}

// A Chinese document says what the English one does: who changes one of them changes both.
func TestTranslationsAreParallel(t *testing.T) {
	for _, english := range []string{"README.md", "docs/pipelines/wecom.md"} {
		chinese := strings.TrimSuffix(english, ".md") + ".zh-CN.md"
		want, got := shapeOf(t, english, chinese), shapeOf(t, chinese, english)
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%s has other %s:\n%q\nwant\n%q", chinese, name, got[name], want[name])
			}
			if len(want[name]) == 0 && name != "figures" {
				t.Errorf("%s: no %s were found", english, name)
			}
		}
	}
}

// shapeOf is the shape of a document that has to lead to its other language.
func shapeOf(t *testing.T, name, other string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	other = "(" + path.Base(other) + ")"
	if !strings.Contains(string(text), other) {
		t.Errorf("%s does not lead to %s", name, other)
	}
	return shape(strings.NewReplacer(other, "(the other)", ".zh-CN.png", ".png").Replace(string(text)))
}

var link = regexp.MustCompile(`\]\(([^)#]+)`)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	for _, doc := range []string{"README.md", "README.zh-CN.md", "docs/operations.md", "docs/cli/README.md",
		"docs/runbook/README.md", "docs/runbook/PawlTopicStalled.md", "DESIGN.md", "CONTRIBUTING.md",
		"docs/guarantees.md", "docs/contract.md", "docs/configuration.md", "docs/workers.md", "docs/kafka.md",
		"docs/api.md", "docs/clients.md", "docs/deploy.md", "docs/schedules.md", "clients/python/README.md",
		"clients/typescript/README.md",
		"docs/pipelines/wecom.md", "docs/pipelines/wecom.zh-CN.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		folder := doc[:strings.LastIndex(doc, "/")+1]
		for _, m := range link.FindAllSubmatch(text, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(folder + to); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, to)
			}
		}
	}
}
