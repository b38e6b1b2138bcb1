package open

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

var update = flag.Bool("update", false, "write the table of capabilities in docs/kafka.md anew")

const kafkaPage = "../docs/kafka.md"

// TestKafkaPageHasEveryOption holds the page to what a URL may say.
func TestKafkaPageHasEveryOption(t *testing.T) {
	text, err := os.ReadFile(kafkaPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## URL\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(kafkaFields(&kafka.Config{}))); !slices.Equal(listed, want) {
		t.Errorf("%s has the options\n%q\nand a URL\n%q", kafkaPage, listed, want)
	}
}

// TestKafkaPageDefaults gives every default of the page to a URL: it is one that a
// store takes, and has the form that the option wants.
func TestKafkaPageDefaults(t *testing.T) {
	text, err := os.ReadFile(kafkaPage)
	if err != nil {
		t.Fatal(err)
	}
	url, n := "kafka://localhost:9092?", 0
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(string(text),
		-1) {
		url += m[1] + "=" + m[2] + "&"
		n++
	}
	if n < 24 {
		t.Fatalf("only %d defaults were found", n)
	}
	stated, err := kafkaConfig(strings.TrimSuffix(url, "&"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := kafkaConfig("kafka://localhost:9092")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*kafka.Config{&stated, &plain} {
		if *c, err = c.Complete(); err != nil {
			t.Fatal(err)
		}
		c.Now, c.Logger = nil, nil
	}
	if a, b := fmt.Sprintf("%+v", stated), fmt.Sprintf("%+v", plain); a != b {
		t.Errorf("by the page the defaults are\n%s\nand they are\n%s", a, b)
	}
}

// TestKafkaPageHasTheCapabilities keeps the table what the backend describes.
func TestKafkaPageHasTheCapabilities(t *testing.T) {
	const begin, end = "<!-- capabilities: go test ./open -update -->\n", "<!-- end of capabilities -->"
	text, err := os.ReadFile(kafkaPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", kafkaPage)
	}
	var table strings.Builder
	table.WriteString("| capability | | |\n|---|---|---|\n")
	for _, c := range store.AllCapabilities {
		support := kafka.Description().Capabilities[c]
		table.WriteString(fmt.Sprintf("| %s | %s | %s |\n", c,
			map[bool]string{true: "kept", false: "refused, or otherwise"}[support.Kept], support.Note))
	}
	want := before + begin + table.String() + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Errorf("%s does not have what the backend describes: go test ./open -update", kafkaPage)
	} else if err := os.WriteFile(kafkaPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
