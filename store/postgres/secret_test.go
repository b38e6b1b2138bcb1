package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A password that is also the user's name is no secret word by itself: an error with
// just that word blacked out would tell it.
func TestErrorsDoNotTellThePassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, said, want string }{
		{"postgres://pawl:tr0ub4dor@h/work", "user=pawl database=work: no tr0ub4dor",
			"user=pawl database=work: no xxxxx"},
		{"postgres://pawl:pawl@h/pawl", "connect to `user=pawl database=pawl`", "connect to `user=pawl database=pawl`"},
		{"postgres://pawl:pawl@h/pawl", "cannot parse postgres://pawl:pawl@h/pawl",
			"cannot parse postgres://pawl:xxxxx@h/pawl"},
		{"postgres://pawl:work@h/work", "user=pawl password=work database=work",
			"user=pawl password=xxxxx database=work"},
	} {
		config, err := pgx.ParseConfig(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := hide(errors.New(c.said), secretOf(&config.Config)).Error(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.url, got, c.want)
		}
	}
}
