package project

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// captured is a table whose changes triggers insert into the outbox: SQL expressions over it, as in the section source.
type captured struct {
	projection, table, key, id, version, doc string
}

// captureCommand prints triggers for a table.
func captureCommand(in *pipeline.Invocation, s store.Store, table string) error {
	rows, ok := store.As[Rows](s)
	if !ok {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "this store has no tables of an application",
			Next: "name a PostgreSQL or SQLite database with --store"}
	}
	c, err := capturedBy(in, table)
	if err != nil {
		return err
	}
	text := "-- Changes of " + table + " go to the projection " + c.projection + ".\n"
	if c.doc == "" {
		text += "-- No source of a configuration file describes the table: correct the projection, the key, which is taken to be\n" +
			"-- id, and the document.\n"
		c.key, c.id, c.doc = "id", "id", "to_jsonb("+last(table)+")"
		if rows.Dialect() == "sqlite" {
			c.doc = "json_object('id', id)"
		}
	}
	if c.version != "" {
		text += "-- Every change of a row has to raise its version. A deletion is one higher than the row's last; a row that comes\n" +
			"-- again under the same id has to begin above that.\n"
	}
	if rows.Dialect() == "sqlite" {
		text += c.sqlite()
	} else {
		text += c.postgres()
	}
	_, err = io.WriteString(in.Stdout, text)
	return err
}

// capturedBy finds the projection of a table: the one that is named, or the only one that has the table as its source,
// or the only one there is.
func capturedBy(in *pipeline.Invocation, table string) (captured, error) {
	c := captured{projection: in.Flags.Text("projection"), table: table}
	sections, err := in.Pipelines(Name)
	if err != nil {
		return c, err
	}
	var all, of []captured
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		s := sections[name]
		p := captured{projection: projectionOf(name, s), table: table}
		if c.projection != "" && c.projection != p.projection {
			continue
		}
		if from := s.Section("source"); from.Text("table") == table {
			p.key, p.id, p.version, p.doc = from.Text("key"), from.Text("doc_id"), from.Text("version"),
				from.Text("doc")
			of = append(of, p)
		}
		all = append(all, p)
	}
	switch {
	case len(of) == 1:
		return of[0], nil
	case c.projection != "":
		if err := checkProjection(c.projection); err != nil {
			return c, &pipeline.Error{Code: pipeline.ExitUsage, What: "the projection " + err.Error()}
		}
		return c, nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0: // nothing but the store is needed
		c.projection = last(strings.ReplaceAll(table, `"`, ""))
		return c, nil
	default:
		return c, &pipeline.Error{
			Code: pipeline.ExitUsage, What: "it is not clear which projection the changes of " + table + " are for",
			Err: fmt.Errorf("the configuration file has %d, %d of them with this table as their source",
				len(all), len(of)),
			Next: "name it: --projection NAME",
		}
	}
}

// last is the name of a table without its schema.
func last(table string) string { return table[strings.LastIndexByte(table, '.')+1:] }

// name is a name for a trigger or a function.
func (c *captured) name() string {
	return "pawl_capture_" + strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, strings.ToLower(c.projection))
}

// insert is a statement that inserts the change of one row of a source.
func (c *captured) insert(op, from string) string { return c.insertFrom(op) + from + ";\n" }

// insertFrom is that statement without the source.
func (c *captured) insertFrom(op string) string {
	version, doc := "NULL", "NULL"
	if c.version != "" {
		version = "(" + c.version + ")"
		if op == "delete" {
			version += " + 1"
		}
	}
	if op == "upsert" {
		doc = "CAST((" + c.doc + ") AS text)"
	}
	return fmt.Sprintf("INSERT INTO pawl_outbox (projection, doc_id, op, version, doc)\n"+
		"\t\tSELECT '%s', CAST((%s) AS text), '%s', %s, %s FROM ", c.projection, c.id, op, version, doc)
}

// postgres evaluates the expressions over a table of the one row, which is called as they expect. The search_path is
// that of whoever ran the script, for the expressions were written with it in mind.
func (c *captured) postgres() string {
	row := func(record string) string { return "(SELECT " + record + ".*) " + last(c.table) }
	id := func(record string) string { return "(SELECT (" + c.id + ") FROM " + row(record) + ")" }
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION %[1]s() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $pawl$
BEGIN
	IF TG_OP = 'TRUNCATE' THEN
		EXECUTE $rows$%[7]s$rows$ || TG_RELID::regclass || ' %[8]s';
		RETURN NULL;
	END IF;
	-- A row that moves to another partition is deleted there, and is still in the table.
	IF TG_OP = 'DELETE' AND NOT ((SELECT relispartition FROM pg_class WHERE oid = TG_RELID)
			AND EXISTS (SELECT FROM %[6]s WHERE (%[10]s) = (SELECT (%[10]s) FROM %[11]s)))
		OR TG_OP = 'UPDATE' AND %[2]s IS DISTINCT FROM %[3]s THEN
		%[4]s	END IF;
	IF TG_OP <> 'DELETE' THEN
		%[5]s	END IF;
	RETURN NULL;
END $pawl$;
DROP TRIGGER IF EXISTS %[1]s ON %[6]s;
CREATE TRIGGER %[1]s AFTER INSERT OR UPDATE OR DELETE ON %[6]s FOR EACH ROW EXECUTE FUNCTION %[1]s();
DROP TRIGGER IF EXISTS %[1]s_truncate ON %[6]s;
CREATE TRIGGER %[1]s_truncate BEFORE TRUNCATE ON %[6]s FOR EACH STATEMENT EXECUTE FUNCTION %[1]s();
-- A partition that is added later is captured, too, but for a TRUNCATE of it alone: run this again. No trigger sees that a
-- partition is dropped or detached.
DO $pawl$
DECLARE
	part regclass;
BEGIN
	FOR part IN SELECT relid FROM pg_partition_tree('%[9]s') WHERE isleaf AND level > 0 LOOP
		EXECUTE 'DROP TRIGGER IF EXISTS %[1]s_truncate ON ' || part;
		EXECUTE 'CREATE TRIGGER %[1]s_truncate BEFORE TRUNCATE ON ' || part
			|| ' FOR EACH STATEMENT EXECUTE FUNCTION %[1]s()';
	END LOOP;
END $pawl$;
`, c.name(), id("OLD"), id("NEW"), c.insert("delete", row("OLD")), c.insert("upsert", row("NEW")), c.table,
		c.insertFrom("delete"), strings.ReplaceAll(last(c.table), "'", "''"), strings.ReplaceAll(c.table, "'", "''"),
		c.key, row("OLD"))
}

// sqlite reads the row from the table: before it goes, and after it has come.
func (c *captured) sqlite() string {
	of := func(record string) string {
		return fmt.Sprintf("%[1]s WHERE %[2]s = %[3]s.%[2]s", c.table, c.key, record)
	}
	var b strings.Builder
	b.WriteString("-- A row that INSERT OR REPLACE removes because of another unique column is deleted in the index only where\n" +
		"-- PRAGMA recursive_triggers is on.\n")
	trigger := func(suffix, when, statement string) {
		name := c.name() + "_" + suffix
		fmt.Fprintf(&b, "DROP TRIGGER IF EXISTS %[1]s;\nCREATE TRIGGER %[1]s %[2]s BEGIN\n\t%[3]sEND;\n", name, when,
			statement)
	}
	trigger("insert", "AFTER INSERT ON "+c.table, c.insert("upsert", of("NEW")))
	trigger("update", "AFTER UPDATE ON "+c.table, c.insert("upsert", of("NEW")))
	trigger("moved", fmt.Sprintf("BEFORE UPDATE ON %[1]s WHEN OLD.%[2]s IS NOT NEW.%[2]s", c.table, c.key),
		c.insert("delete", of("OLD")))
	trigger("delete", "BEFORE DELETE ON "+c.table, c.insert("delete", of("OLD")))
	return b.String()
}
