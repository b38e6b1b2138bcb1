package pawl_test

import (
	"os"
	"regexp"
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

var link = regexp.MustCompile(`\]\(([^)#]+)`)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	for _, doc := range []string{"README.md", "DESIGN.md", "CONTRIBUTING.md", "docs/guarantees.md", "docs/contract.md"} {
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
