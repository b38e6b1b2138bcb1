package project

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// captures returns what init --capture prints for a table, with these projections in the configuration.
func (r *rig) captures(table, projection string, sections map[string]pipeline.Section) (string, error) {
	var out bytes.Buffer
	values := map[string]any{"capture": table, "projection": projection}
	in := &pipeline.Invocation{
		Flags: pipeline.NewValues(commands()[0].Commands[0].Flags, values, nil), Stdout: &out,
		Open:      func(context.Context, string, bool) (store.Store, error) { return r.store, nil },
		Pipelines: func(string) (map[string]pipeline.Section, error) { return sections, nil },
	}
	err := initCommand(r.t.Context(), in)
	return out.String(), err
}

// The triggers insert for the projection, and what they insert is what the source of the projection has.
func TestCapture(t *testing.T) {
	onBoth(t, func(r *rig) {
		script, err := r.captures("products", "", map[string]pipeline.Section{"search": r.section()})
		r.ok(err)
		r.exec(script)
		r.exec(script) // it can be repeated
		r.daemon()
		r.exec(`INSERT INTO products (id, name, version) VALUES (1, 'lamp', 4), (2, 'chair', 1), (3, 'table', 1)`)
		r.drained()
		r.exec(`UPDATE products SET name = 'big lamp', version = 5 WHERE id = 1`)
		r.exec(`UPDATE products SET id = 7, version = 2 WHERE id = 2`)
		r.exec(`DELETE FROM products WHERE id = 3`)
		r.drained()
		r.equal()
		if n := len(r.index()); n != 2 {
			r.t.Errorf("%d documents, want 2: %v", n, r.index())
		}
	})
}

// Without a source the triggers are a draft, which names the projection all the same; where that is not clear, it asks.
func TestCaptureNames(t *testing.T) {
	r := newRig(t, false)
	r.values["source"] = object("source", nil)
	one := map[string]pipeline.Section{"search": r.section()}
	two := map[string]pipeline.Section{"search": r.section(), "other": r.section()}
	for name, tt := range map[string]struct {
		projection string
		sections   map[string]pipeline.Section
		want       string
	}{
		"the only one":     {"", one, r.alias},
		"named":            {"other", two, "other"},
		"no configuration": {"", nil, "products"},
		"two":              {"", two, ""},
	} {
		t.Run(name, func(t *testing.T) {
			script, err := r.captures("products", tt.projection, tt.sections)
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), "not clear") {
					t.Fatalf("%v; it printed %s", err, script)
				}
				return
			}
			if err != nil || strings.Count(script, "SELECT '"+tt.want+"'") != 4 {
				t.Errorf("%v; %s", err, script)
			}
		})
	}
}

// TRUNCATE is captured as deletions, and the triggers work whatever the search_path of the writer is.
func TestCaptureOfTruncateAndSearchPath(t *testing.T) {
	r := newRig(t, true)
	script, err := r.captures("products", "", map[string]pipeline.Section{"search": r.section()})
	r.ok(err)
	r.exec(script)
	r.daemon()
	conn, err := r.db.Conn(t.Context())
	r.ok(err)
	t.Cleanup(func() { _ = conn.Close() })
	table := r.one(`SELECT current_schema()`) + ".products"
	for _, statement := range []string{
		`CREATE SCHEMA elsewhere`, `SET search_path TO elsewhere`,
		`INSERT INTO ` + table + ` (id, name, version) VALUES (1, 'lamp', 4), (2, 'chair', 1)`,
	} {
		_, err := conn.ExecContext(t.Context(), statement)
		r.ok(err)
	}
	r.drained()
	if n := len(r.index()); n != 2 {
		t.Errorf("%d documents, want 2", n)
	}
	_, err = conn.ExecContext(t.Context(), `TRUNCATE `+table)
	r.ok(err)
	r.drained()
	r.equal()
	if n := len(r.index()); n != 0 {
		t.Errorf("after TRUNCATE %d documents", n)
	}
}

// A TRUNCATE of one partition is captured, too.
func TestCaptureOfATruncatedPartition(t *testing.T) {
	r := newRig(t, true)
	r.exec(`DROP TABLE products`)
	r.exec(`CREATE TABLE products (id bigint PRIMARY KEY, name text, version bigint) PARTITION BY RANGE (id)`)
	r.exec(`CREATE TABLE "Low" PARTITION OF products FOR VALUES FROM (1) TO (10) PARTITION BY RANGE (id)`)
	r.exec(`CREATE TABLE "Lowest" PARTITION OF "Low" FOR VALUES FROM (1) TO (5)`)
	r.exec(`CREATE TABLE high PARTITION OF products FOR VALUES FROM (10) TO (20)`)
	script, err := r.captures("products", "", map[string]pipeline.Section{"search": r.section()})
	r.ok(err)
	r.exec(script)
	r.exec(script)
	r.daemon()
	r.exec(`INSERT INTO products (id, name, version) VALUES (1, 'lamp', 4), (2, 'chair', 1), (11, 'table', 1)`)
	r.drained()
	for _, of := range []struct {
		table string
		left  int
	}{{`"Lowest"`, 1}, {"products", 0}} {
		r.exec(`TRUNCATE ` + of.table)
		r.drained()
		r.equal()
		if n := len(r.index()); n != of.left {
			t.Errorf("after TRUNCATE %s %d documents, want %d", of.table, n, of.left)
		}
	}
}

// A row that moves to another partition is no deletion: that would have the version of the row in its new place, and be
// the last word where its two changes come to the index one after the other.
func TestCaptureOfAMovedRow(t *testing.T) {
	r := newRig(t, true)
	r.exec(`DROP TABLE products`)
	r.exec(`CREATE TABLE products (id bigint, name text, version bigint, place text, PRIMARY KEY (id, place))
		PARTITION BY LIST (place)`)
	r.exec(`CREATE TABLE here PARTITION OF products FOR VALUES IN ('here')`)
	r.exec(`CREATE TABLE there PARTITION OF products FOR VALUES IN ('there')`)
	script, err := r.captures("products", "", map[string]pipeline.Section{"search": r.section()})
	r.ok(err)
	r.exec(script)
	r.exec(`INSERT INTO products VALUES (1, 'lamp', 4, 'here'), (2, 'chair', 1, 'here')`)
	r.exec(`UPDATE products SET place = 'there', version = version + 1 WHERE id = 1`)
	r.exec(`DELETE FROM products WHERE id = 2`)
	got := r.one(`SELECT string_agg(doc_id || ' ' || op || ' ' || version, ', ' ORDER BY id) FROM pawl_outbox_status`)
	if want := "1 upsert 4, 2 upsert 1, 1 upsert 5, 2 delete 2"; got != want {
		t.Errorf("captured: %s; want %s", got, want)
	}
}
