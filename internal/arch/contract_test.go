package arch

import "go/ast"

// checkContract counts the optional interfaces of package store. One with methods that are not exported is no interface
// of a backend.
func checkContract(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		if p.path != "store" {
			continue
		}
		var optional []*ast.Ident
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if t, ok := n.(*ast.TypeSpec); ok && !f.test && t.Name.Name != "Store" && forBackends(t.Type) {
					optional = append(optional, t.Name)
				}
				return true
			})
		}
		if len(optional) > maxOptional {
			r.add(optional[maxOptional].Pos(), "package store has %d optional interfaces, more than %d: make this one a part of "+
				"another, or keep it where it is needed", len(optional), maxOptional)
		}
	}
}

func forBackends(t ast.Expr) bool {
	i, ok := t.(*ast.InterfaceType)
	if !ok {
		return false
	}
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			if !name.IsExported() {
				return false
			}
		}
	}
	return true
}
