package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestSituationsHaveWords: each constant of package operate that begins with Situation has a phrase in both languages.
func TestSituationsHaveWords(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../internal/operate/explain.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(c.Names[0].Name, "Situation") {
			return true
		}
		found++
		value, ok := c.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no literal", c.Names[0].Name)
		}
		code, err := strconv.Unquote(value.Value)
		if phrase := situations[code]; err != nil || phrase == "" || translate(zh, phrase) == phrase {
			t.Errorf("%s has no words in both languages", c.Names[0].Name)
		}
		return false
	})
	if found == 0 || found != len(situations) {
		t.Errorf("%d constants, %d phrases", found, len(situations))
	}
}
