package arch

import (
	"go/token"
	"slices"
)

// checkLayers finds imports within the module that no layer allows, and packages
// that no layer covers. Test files may import what they like.
func checkLayers(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		if _, ok := layerOf(p.path); !ok {
			r.add(p.files[0].ast.Pos(), "no layer covers package %s: say in data_test.go what it may import, and why",
				p.path)
		}
	}
	tr.eachImport(func(p *pkg, f *file, imported string, at token.Pos) {
		to, ok := ours(imported)
		l, covered := layerOf(p.path)
		if !ok || !covered || f.test || below(p.path, to) {
			return
		}
		if why, forbidden := arrowReason(p.path, to); forbidden && below("store/storetest", to) &&
			!below("store/storetest", p.path) && p.path != "dispatch/enginetest" {
			r.add(at, "%s must not import %s: %s", p.path, to, why)
		} else if !matchesAny(l.may, to) {
			if !forbidden {
				why = l.why
			}
			r.add(at, "%s must not import %s: %s", p.path, to, why)
		}
	})
}

func layerOf(name string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return matches(l.path, name) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

func arrowReason(from, to string) (why string, ok bool) {
	i := slices.IndexFunc(arrows, func(a arrow) bool { return matches(a.from, from) && matches(a.to, to) })
	if i < 0 {
		return "", false
	}
	return arrows[i].why, true
}

// checkLibraries finds third-party imports outside the package that owns them.
// Test files may import every library that is listed.
func checkLibraries(tr *tree, r *report) {
	tr.eachImport(func(p *pkg, f *file, imported string, at token.Pos) {
		if _, own := ours(imported); own || standard(imported) {
			return
		}
		forTests := f.test || below("store/storetest", p.path)
		owned := slices.IndexFunc(owners, func(o owner) bool { return below(o.library, imported) })
		switch {
		case slices.ContainsFunc(testLibraries, func(lib string) bool { return below(lib, imported) }):
			if !forTests {
				r.add(at, "%s must not import %s: it is for tests", p.path, imported)
			}
		case owned < 0:
			r.add(at, "%s imports %s, which no package owns: justify the library, and name its owner in data_test.go",
				p.path, imported)
		case f.test:
		case matchesAny(core, p.path):
			r.add(at, "%s must not import %s: core packages import the standard library only", p.path, imported)
		case !matches(owners[owned].pkg, p.path):
			r.add(at, "%s must not import %s: %s owns it, so that one package can replace it", p.path, imported,
				owners[owned].pkg)
		}
	})
}

// checkBans finds packages of the standard library where they are not wanted.
func checkBans(tr *tree, r *report) {
	tr.eachImport(func(p *pkg, f *file, imported string, at token.Pos) {
		if f.test || !standard(imported) {
			return
		}
		for _, b := range bans {
			if matchesAny(b.from, p.path) && !matchesAny(b.except, p.path) && matchesAny(b.to, imported) {
				r.add(at, "%s must not import %s: %s", p.path, imported, b.why)
			}
		}
	})
}
