package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// withPassword is a Source whose PW and /pw are a password.
func withPassword(text, password string) Source {
	return Source{
		Path: "pawl.yaml", Text: []byte(text),
		Getenv: func(name string) string {
			return map[string]string{"PW": password, "BOTH": "u:" + password, "NAME": password}[name]
		},
		ReadFile: func(string) ([]byte, error) { return []byte(password + "\n"), nil },
	}
}

func TestAnyPasswordFitsIntoAURL(t *testing.T) {
	for _, password := range []string{
		"plain", "a password", "x@y12345", "a/b", "1/2", "a#b", "a?b=c&d", "50%", "%zz", "a%4", "a:b", "a+b", "$${x}",
		"[::1]", `q"'\<>`, "pässwört", "a,b;c",
	} {
		for _, written := range []string{
			"postgres://u:${PW}@db:5432/pawl", "postgres://u:${file:/pw}@db:5432/pawl?sslmode=disable",
			"postgres://${BOTH}@db/pawl",
			"postgres://${NONE:u}:${PW}@db/pawl", "https://u:${PW}@db:5432/pawl",
			"postgres://u:${PW}@${NONE:db}/pawl?x=a@b",
		} {
			text := "store: " + written
			if strings.HasPrefix(written, "https") {
				text = "topics: {a: {handler: http, url: '" + written + "'}}"
			}
			c, err := Load(withPassword(text, password))
			if err != nil {
				t.Errorf("%s with %q: %v", written, password, err)
				continue
			}
			got := c.Store
			if len(c.Topics) > 0 {
				got = c.Topics[0].URL
			}
			u, err := url.Parse(got)
			if err != nil {
				t.Errorf("%s with %q: %v", written, password, err)
				continue
			}
			if p, _ := u.User.Password(); p != password || u.User.Username() != "u" || u.Hostname() != "db" ||
				u.Path != "/pawl" {
				t.Errorf("%s with %q is user %q, password %q, host %q, path %q", written, password, u.User.Username(),
					p, u.Host, u.Path)
			}
			if !slices.Contains(c.Secrets, password) && !slices.Contains(c.Secrets, "u:"+password) {
				t.Errorf("%q is not masked in logs", password)
			}
		}
	}
}

func TestWhatIsEscapedAlreadyStays(t *testing.T) {
	for password, want := range map[string]string{"p%40ss": "p@ss", "p%40s$s:x": "p@s$s:x", "%25": "%"} {
		c, err := Load(withPassword("store: postgres://u:${PW}@db/pawl", password))
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(c.Store)
		if err != nil {
			t.Fatal(err)
		}
		if p, _ := u.User.Password(); p != want {
			t.Errorf("%q is read as %q, want %q", password, p, want)
		}
	}
}

// TestOnlyUserAndPasswordAreEscaped: what stands elsewhere in a URL is part of it.
func TestOnlyUserAndPasswordAreEscaped(t *testing.T) {
	for written, want := range map[string]string{
		"postgres://u@${PW}/db": "postgres://u@a/b c/db", "postgres://h/${PW}": "postgres://h/a/b c",
		"postgres://h/db?application_name=${PW}@x": "postgres://h/db?application_name=a/b c@x",
		"sqlite:${PW}": "sqlite:a/b c", "${NONE:memory:}": "memory:", "postgres://$${@h": "postgres://${@h",
		"kafka://h:9092?fallback=postgres://u:${PW}@h/db": "kafka://h:9092?fallback=postgres://u:a%252Fb%2520c@h/db",
	} {
		s := withPassword("", "a/b c")
		if e, why, _ := s.expand(written, true); why != "" || e.value != want {
			t.Errorf("%s is %q (%s), want %q", written, e.value, why, want)
		}
	}
}

// TestAPasswordThatIsNotEscapedIsRefused: a part of it would be taken for a host.
func TestAPasswordThatIsNotEscapedIsRefused(t *testing.T) {
	for password, good := range map[string]bool{
		"a password": false, "x@y12345": false, "a/b": false, "12/b": false, "a#b": false, "50%": false, "12#b": false,
		"a%40b": true, "a:b": true, "plain": true,
	} {
		_, err := Load(Source{Path: "pawl.yaml", Text: []byte("node: n\nstore: 'postgresql://u:" + password +
			"@h1:1,h2:2/db?x=a@b'\n")})
		ps, _ := errors.AsType[Problems](err)
		if (err == nil) != good || !good && (len(ps) != 1 || ps[0].Line != 2 || !strings.Contains(ps[0].Hint, "%40")) {
			t.Errorf("%q: %v", password, err)
		}
	}
}
