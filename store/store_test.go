package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

func TestTextFitsEveryStore(t *testing.T) {
	for _, s := range []string{"a\x00b\xff", strings.Repeat("é", store.MaxReason),
		strings.Repeat("\x00", store.MaxReason), "fine"} {
		got := store.Text(s)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > store.MaxReason {
			t.Errorf("%.20q became %.20q (%d bytes)", s, got, len(got))
		}
	}
	if store.Text("fine") != "fine" {
		t.Error("fine text was changed")
	}
}

func TestFingerprintGroupsOneCause(t *testing.T) {
	same := []string{
		`dial tcp 10.0.0.7:4431: connection refused`,
		`dial tcp 10.0.1.9:80: connection refused`,
	}
	if fingerprint.Of("Download", same[0]) != fingerprint.Of("Download", same[1]) {
		t.Error("two addresses, two groups")
	}
	quoted := []string{`no user "ann" (id 0198c2de-0000-7000-8000-0123456789ab)`,
		`no user "bob" (id 0198c2de-1111-7111-8111-0123456789ab)`}
	if fingerprint.Of("", quoted[0]) != fingerprint.Of("", quoted[1]) {
		t.Error("two names, two groups")
	}
	if fingerprint.Of("a", "x") == fingerprint.Of("b", "x") || fingerprint.Of("", "x") == fingerprint.Of("", "y") {
		t.Error("two causes, one group")
	}
}

func TestNewestDeclarationWins(t *testing.T) {
	fresh := store.NewTopic("t")
	d := store.Declaration{Name: "t", Deadline: time.Minute}
	declared, err := d.Apply(fresh, true)
	if err != nil || declared.Version != 1 || declared.Deadline != time.Minute || declared.Order != store.OrderKey {
		t.Fatal(declared, err)
	}
	if again, err := d.Apply(declared, false); err != nil || again != declared {
		t.Fatal(again, err)
	}
	other := store.Declaration{Name: "t", Deadline: time.Hour, Order: store.OrderNone}
	if now, err := other.Apply(declared, false); !errors.Is(err, store.ErrConflict) || now != declared {
		t.Fatal(now, err)
	}
	newest, err := other.Apply(declared, true)
	if err != nil || newest.Version != 2 || newest.Deadline != time.Hour || newest.Order != store.OrderNone {
		t.Fatal(newest, err)
	}
	if got := declared.Changes(newest); got != "order none, was key; deadline 1h0m0s, was 1m0s" {
		t.Fatal(got)
	}
	order := store.Declaration{Name: "t", Order: store.OrderNone}
	if _, err := order.Apply(fresh, false); !errors.Is(err, store.ErrConflict) {
		t.Fatal("order changed under messages:", err)
	}
	if free, err := order.Apply(fresh, true); err != nil || free.Order != store.OrderNone {
		t.Fatal(free, err)
	}
	silent := store.Declaration{Name: "t"}
	if same, err := silent.Apply(declared, false); err != nil || same != declared {
		t.Fatal("who states nothing agrees:", err)
	}
}

type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

type described struct{ store.Store }

func (described) Describe() store.Description { return store.Description{Name: "inner"} }

func TestAsLooksThroughWrappers(t *testing.T) {
	d, ok := store.As[store.Describer](wrapper{wrapper{described{}}})
	if !ok || d.Describe().Name != "inner" {
		t.Fatal("not found")
	}
	if _, ok := store.As[store.Migrator](wrapper{described{}}); ok {
		t.Fatal("found what is not there")
	}
}
