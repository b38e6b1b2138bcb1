package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// stateBody is a value, which is JSON.
type stateBody struct {
	Value  json.RawMessage `json:"value"`
	Schema string          `json:"schema"`
	versionBody
}

func (b *stateBody) check() error {
	if len(b.Value) == 0 {
		return fault("value", "is missing")
	}
	return nil
}

type versionBody struct {
	IfVersion *int64 `json:"if_version"`
	reasonBody
}

// version is the one that is replaced; 0 is none.
func (b *versionBody) version() int64 {
	if b.IfVersion == nil {
		return statesync.AnyVersion
	}
	return max(*b.IfVersion, statesync.AnyVersion-1) // below, it is refused
}

// shared is the topic of the state that a path names.
func (x *exchange) shared(schema string) (*statesync.Topic[json.RawMessage], error) {
	if err := x.needWhole(); err != nil {
		return nil, err
	}
	return statesync.New[json.RawMessage](x.api.store, x.r.PathValue("topic"), statesync.Config{Writer: x.caller.name,
		Schema: schema, Logger: x.api.config.Logger})
}

func (x *exchange) listShared(ctx context.Context) ([]operate.StateValue, error) {
	t, err := x.shared("")
	if err != nil {
		return nil, err
	}
	all, err := t.List(ctx, x.r.URL.Query().Get("prefix"))
	return operate.FormStates(all), err
}

func (x *exchange) listVersions() error {
	t, err := x.shared("")
	if err != nil {
		return err
	}
	return upTo(x, func(ctx context.Context, most int) ([]operate.StateValue, error) {
		all, err := t.Newest(ctx, x.r.PathValue("key"), most)
		return operate.FormStates(all), err
	})
}

func (x *exchange) showShared(ctx context.Context) (any, error) {
	t, err := x.shared("")
	if err != nil {
		return nil, err
	}
	v, err := t.Get(ctx, x.r.PathValue("key"))
	return operate.FormState(&v), err
}

func putState(ctx context.Context, x *exchange, b *stateBody) (operate.AuditEntry, any, error) {
	if check := x.api.config.Rooms.CheckState; check != nil {
		if err := check(x.r.PathValue("topic"), b.Value); err != nil {
			return operate.AuditEntry{}, nil, fault("value", "is refused: "+err.Error())
		}
	}
	return x.changeShared(b.Schema, func(t *statesync.Topic[json.RawMessage], key string) (
		statesync.Value[json.RawMessage], error) {
		return t.Put(ctx, key, b.Value, b.version())
	})
}

func removeState(ctx context.Context, x *exchange, b *versionBody) (operate.AuditEntry, any, error) {
	return x.changeShared("", func(t *statesync.Topic[json.RawMessage], key string) (statesync.Value[json.RawMessage],
		error) {
		return t.Delete(ctx, key, b.version())
	})
}

func (x *exchange) changeShared(schema string, do func(t *statesync.Topic[json.RawMessage], key string) (
	statesync.Value[json.RawMessage], error)) (e operate.AuditEntry, _ any, err error) {
	t, err := x.shared(schema)
	if err != nil {
		return e, nil, err
	}
	key := x.r.PathValue("key")
	e.Target = x.r.PathValue("topic") + "/" + key
	v, err := do(t, key)
	return e, operate.FormState(&v), err
}

// stateEntry is an entry of the state of a store, of whatever part of it.
type stateEntry struct {
	Key     string    `json:"key"`
	Value   string    `json:"value"`
	Version int64     `json:"version"`
	Writer  string    `json:"writer"`
	At      time.Time `json:"at"`
}

func (x *exchange) listState(ctx context.Context, of operate.Part) (p operate.Page[stateEntry], err error) {
	entries, err := part[store.Shared](x)
	if err != nil {
		return p, err
	}
	return operate.PageOf(ctx, entries, x.r.URL.Query().Get("prefix"), of, func(e *store.Entry) (stateEntry, bool, error) {
		value := strings.ToValidUTF8(string(e.Value), "\uFFFD")
		// The key of tokens is nobody's business.
		return stateEntry{e.Key, value, e.Version, e.Writer, e.At.UTC()}, !strings.HasPrefix(e.Key, keyScope), nil
	})
}
