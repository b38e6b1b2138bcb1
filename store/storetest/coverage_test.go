package storetest

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// contractFiles hold the contract: every sentence of their doc comments that is
// about what a store does.
var contractFiles = []string{
	"../store.go", "../topic.go", "../rank.go", "../bound.go", "../inspect.go", "../shared.go",
	"../results.go", "../errors.go", "../backend/accepted.go", "../backend/limits.go", "../backend/reasons.go",
	"../../message.go", "../../delivery.go", "../../mark.go",
}

// TestEverySentenceHasATest: testdata/coverage.txt says for every sentence of the
// contract which tests are about it, or why none can be.
func TestEverySentenceHasATest(t *testing.T) {
	var texts []string
	for _, file := range contractFiles {
		texts = append(texts, docsOf(t, file)...)
	}
	tests := map[string]bool{}
	for _, s := range Sentences() {
		if tests[s.Name] {
			t.Errorf("two sentences have the name %s", s.Name)
		}
		tests[s.Name] = true
	}
	for _, layer := range []string{"random", "concurrency", "faults"} {
		tests[layer] = true
	}
	covered := coverage(t)
	orphans := map[string]bool{}
	for _, s := range Sentences() {
		orphans[s.Name] = true
	}
	for _, text := range texts {
		by, known := covered[text]
		delete(covered, text)
		if !known {
			t.Errorf("no test is about: %s", text)
			continue
		}
		if strings.HasPrefix(by, "--") {
			continue
		}
		for name := range strings.FieldsSeq(by) {
			delete(orphans, name)
			if !tests[name] {
				t.Errorf("there is no test %s, which is said to be about: %s", name, text)
			}
		}
	}
	for name := range orphans {
		t.Errorf("nothing in the contract asks for %s", name)
	}
	for text := range covered {
		t.Errorf("the contract does not say any more: %s", text)
	}
}

// coverage reads lines in pairs: a sentence, and indented below it the names of
// its tests, or "--" and why there is none.
func coverage(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/coverage.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	covered := map[string]string{}
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "" || line[0] == '#':
		case line[0] == '\t':
			covered[last] = strings.TrimSpace(line)
		default:
			last = line
		}
	}
	return covered
}

// docsOf returns the sentences of a file's doc comments.
func docsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil && !slices.Contains(docs, g.Text()) {
				docs = append(docs, g.Text())
			}
		}
	}
	add(f.Doc)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.IsExported() {
				add(n.Doc)
			}
			return false
		case *ast.GenDecl:
			add(n.Doc)
		case *ast.TypeSpec:
			add(n.Doc)
			return n.Name.IsExported()
		case *ast.ValueSpec:
			add(n.Doc)
		case *ast.Field:
			add(n.Doc)
		}
		return true
	})
	var sentences []string
	for _, doc := range docs {
		sentences = append(sentences, split(doc)...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(sentences, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

var (
	heading = regexp.MustCompile(`(?m)^# .*$`)
	spaces  = regexp.MustCompile(`\s+`)
	// A full stop, and then a sentence: "0-9 . _ -" is none.
	sentenceEnd = regexp.MustCompile(`\. [A-Z0\[]`)
)

// split parts a comment into sentences.
func split(doc string) []string {
	var sentences []string
	for p := range strings.SplitSeq(heading.ReplaceAllString(doc, ""), "\n\n") {
		p = strings.TrimSpace(spaces.ReplaceAllString(p, " "))
		for p != "" {
			at := len(p)
			if end := sentenceEnd.FindStringIndex(p); end != nil {
				at = end[0] + 1
			}
			sentences = append(sentences, p[:at])
			p = strings.TrimSpace(p[at:])
		}
	}
	return sentences
}
