package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

// place says where packages are named that stand side by side: their table. A new one
// is its folder and a line there, and nothing else that is not a test.
type place struct {
	what    []string // the packages
	table   string   // the package that has the table
	besides map[string]string
}

// places: stores, kinds of handlers, pipelines.
var places = []place{
	{
		what:  []string{"store/sqlite", "store/memory", "store/postgres", "store/mysql", "store/redis", "store/kafka"},
		table: "open",
		besides: map[string]string{
			"internal/cluster -> store/kafka": "`pawl kafka` is about Kafka",
		},
	},
	{
		what: []string{"handler/exec", "handler/pipe", "handler/http"}, table: "internal/serve",
		besides: map[string]string{
			"internal/cli -> handler/pipe":   "the flag --in-flight has its bound",
			"pipeline/wecom -> handler/exec": "its handler answers: what a program writes is sent to a customer",
			"pipeline/wecom -> handler/pipe": "its handler answers: what a program writes is sent to a customer",
			"pipeline/wecom -> handler/http": "its handler answers: what a web service replies is sent to a customer",
		},
	},
	{
		what: []string{"pipeline/*"}, table: "internal/serve",
		besides: map[string]string{"internal/demo -> pipeline/crawl": "the demonstration is a crawl"},
	},
}

// TestPlaces counts the packages that name a store, a kind of handler or a pipeline.
func TestPlaces(t *testing.T) {
	tr := load(t, os.DirFS(filepath.Join("..", "..")))
	used := map[string]bool{}
	tr.eachImport(func(p *pkg, f *file, imported string, at token.Pos) {
		to, ok := ours(imported)
		if !ok || f.test || below("store/storetest", p.path) || below("examples", p.path) {
			return
		}
		for _, pl := range places {
			arrow := p.path + " -> " + to
			_, known := pl.besides[arrow]
			used[arrow] = true
			own := below(to, p.path) || p.path == pl.table
			if !own && !known && matchesAny(pl.what, to) {
				t.Errorf("%s: %s names %s, which only %s does: add what you need to its table",
					tr.fset.Position(at), p.path, to, pl.table)
			}
		}
	})
	for _, pl := range places {
		for arrow := range pl.besides {
			if !used[arrow] {
				t.Errorf("%s is not there any more: take it out", arrow)
			}
		}
	}
}

// TestNobodyAsksForABackend finds store.As with a concrete type: whoever asks what a store
// can do asks by an interface, so that another store can do it, too.
func TestNobodyAsksForABackend(t *testing.T) {
	tr := load(t, os.DirFS(filepath.Join("..", "..")))
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			if f.test || below("store", p.path) {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.IndexExpr)
				if !ok {
					return true
				}
				as, ok := call.X.(*ast.SelectorExpr)
				_, pointer := call.Index.(*ast.StarExpr)
				if ok && pointer && as.Sel.Name == "As" {
					t.Errorf("%s: %s asks for a concrete store: ask by an interface for what it can do",
						tr.fset.Position(n.Pos()), p.path)
				}
				return true
			})
		}
	}
}
