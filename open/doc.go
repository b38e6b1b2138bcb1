// Package open opens stores by their URL:
//
//	s, err := open.Open(ctx, open.Config{URL: "sqlite:pawl.db"})
//
// [Backends] lists the kinds of stores. Options of a URL put a codec, a fallback
// or a relay around any of them; [Mirror] puts a second store beside one.
package open
