package app_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/app"
)

func TestRedactURL(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:a.db":                          "sqlite:a.db",
		"postgres://u@h/d":                     "postgres://u@h/d",
		"postgres://u:p@h:1/d?a=b":             "postgres://u:***@h:1/d?a=b",
		"postgres://u:a@b/c d:e@h/d":           "postgres://u:***@h/d",
		"postgres://:p@h":                      "postgres://:***@h",
		"postgres://h/d?user=u&password=p&a=b": "postgres://h/d?user=u&password=***&a=b",
		"postgres://h/d?sslpassword=p q":       "postgres://h/d?sslpassword=*** q",
		"redis://:p@h,x:q@i":                   "redis://:***@i",
	} {
		if got := app.RedactURL(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestRedactorFindsThePasswordAnywhere(t *testing.T) {
	r := app.NewRedactor("postgres://u:s3%40cret+x@h/d", "")
	for _, text := range []string{
		"password authentication failed for s3@cret+x", "dial postgres://u:s3%40cret+x@h/d: no", "host=h password='an other' user=u", `{"url":"postgres://a:b@c"}`,
	} {
		got := r.Redact(text)
		for _, secret := range []string{"s3@cret", "s3%40cret", "an other", "a:b@"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %s", text, got)
			}
		}
	}
	if got := r.Redact("nothing to hide: user@host"); got != "nothing to hide: user@host" {
		t.Error(got)
	}
}

// FuzzRedactor takes any password, however it is written into the URL.
func FuzzRedactor(f *testing.F) {
	f.Add("pass@wo/rd ?#")
	f.Fuzz(func(t *testing.T, password string) {
		if len(password) < 3 || strings.Contains("postgres://user:***@host/db is not reachable", password) {
			return
		}
		url := "postgres://user:" + password + "@host/db"
		if got := app.RedactURL(url); strings.Contains(got, password) {
			t.Errorf("%q: %q", url, got)
		}
		if got := app.NewRedactor(url).Redact(url + " is not reachable"); strings.Contains(got, password) {
			t.Errorf("%q in a text: %q", url, got)
		}
	})
}
