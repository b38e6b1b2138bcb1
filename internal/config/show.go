package config

import (
	"slices"
	"strings"
)

// Setting is a value of the configuration, as people see it: secrets are masked.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // default, pawl.yaml:12, env PAWL_STORE, flag --store
	// Live tells that a reload applies a change of it.
	Live bool `json:"live"`
}

// Settings are the effective values, in the order of the format.
func (c *Config) Settings() []Setting {
	var all []Setting
	c.each(func(n *node, live bool) {
		all = append(all, Setting{n.path, n.shown, n.origin, live})
	})
	return all
}

// each calls f for every scalar, and reports whether a reload applies a change of it.
func (c *Config) each(f func(n *node, live bool)) { c.root.leaves(false, f) }

func (n *node) leaves(live bool, f func(n *node, live bool)) {
	switch n.shape.kind {
	case object:
		for i := range n.shape.fields {
			if child := n.under[n.shape.fields[i].name]; child != nil {
				child.leaves(live || n.shape.fields[i].isLive(handlerOf(n)), f)
			}
		}
	case table:
		for _, child := range n.inOrder() {
			child.leaves(live, f)
		}
	case list:
		for _, item := range n.items {
			item.leaves(live, f)
		}
	default:
		f(n, live)
	}
}

// Restart names what differs between two configurations and needs a restart: what
// a reload does not apply. A topic that came or went is named once.
func Restart(running, next *Config) []string {
	before, after := running.fixed(), next.fixed()
	var paths []string
	add := func(path string) {
		path = topicOf(path, running, next)
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	running.each(func(n *node, live bool) {
		if now, there := after[n.path]; !live && (!there || now != n.value) {
			add(n.path)
		}
	})
	next.each(func(n *node, live bool) {
		if _, there := before[n.path]; !live && !there {
			add(n.path)
		}
	})
	return paths
}

// fixed are the values that no reload applies, by path.
func (c *Config) fixed() map[string]any {
	all := map[string]any{}
	c.each(func(n *node, live bool) {
		if !live {
			all[n.path] = n.value
		}
	})
	return all
}

// topicOf shortens the path of a value in a topic that only one of the two has to
// that of the topic.
func topicOf(path string, a, b *Config) string {
	for _, t := range append(slices.Clone(a.Topics), b.Topics...) {
		prefix := "topics." + t.Name
		if strings.HasPrefix(path, prefix+".") && a.has(t.Name) != b.has(t.Name) {
			return prefix
		}
	}
	return path
}

func (c *Config) has(topic string) bool {
	return slices.ContainsFunc(c.Topics, func(t Topic) bool { return t.Name == topic })
}
