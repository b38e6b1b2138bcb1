package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

func source(text string) Source {
	return Source{
		Path: "pawl.yaml", Text: []byte(text),
		Getenv: func(name string) string { return map[string]string{"PW": "pa55word", "HOST": "db.example"}[name] },
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "/run/secrets/token":
				return []byte("t0k3n-from-file\n"), nil
			case "/empty":
				return nil, nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
		Mask: func(s string) string { return strings.ReplaceAll(s, "plainpw", "***") },
	}
}

func TestExpansion(t *testing.T) {
	for written, want := range map[string]string{
		"plain": "plain", "a${PW}b": "apa55wordb", "${NONE:x:y}": "x:y", "${NONE:}z": "z",
		"${file:/run/secrets/token}": "t0k3n-from-file",
		"$${PW}":                     "${PW}", "$$$": "$$$", "${HOST}:${PW}": "db.example:pa55word",
	} {
		s := source("")
		if e, why, _ := s.expand(written, false); why != "" || e.value != want {
			t.Errorf("%s is %q (%s), want %q", written, e.value, why, want)
		} else if strings.Contains(e.shown, "pa55word") || strings.Contains(e.shown, "t0k3n") {
			t.Errorf("%s is shown as %q", written, e.shown)
		}
	}
	for written, want := range map[string]string{
		"${NONE}": "NONE is not set", "${PW": "without a }", "${1}": "not ${NAME}", "${}": "not ${NAME}",
		"${file:/no}": "cannot be read", "${file:/empty}": "is empty",
	} {
		s := source("")
		if _, why, _ := s.expand(written, false); !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", written, why, want)
		}
	}
}

const withSecrets = `store: postgres://u:${PW}@${HOST}/db
topics:
  a:
    handler: http
    url: http://u:plainpw@h/
    headers: {Authorization: "Bearer ${file:/run/secrets/token}", X-Api-Key: literal-key, X-Plain: "1"}
  b: {handler: exec, command: 'echo ${PW} ${1}'}
`

func TestSecretsAreUsedAndNotShown(t *testing.T) {
	c, err := Load(source(withSecrets))
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "postgres://u:pa55word@db.example/db" ||
		c.Topics[0].Headers["Authorization"] != "Bearer t0k3n-from-file" {
		t.Errorf("read as %+v", c)
	}
	if c.Topics[1].Command != "echo ${PW} ${1}" {
		t.Errorf("${…} in a command is the shell's; it is %q", c.Topics[1].Command)
	}
	text := fmt.Sprint(c.Settings())
	for _, secret := range []string{"pa55word", "t0k3n", "plainpw", "literal-key"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is shown: %s", secret, text)
		}
	}
	if !slices.Contains(c.Secrets, "pa55word") || !slices.Contains(c.Secrets, "t0k3n-from-file") {
		t.Errorf("secrets for the logs: %v", c.Secrets)
	}
}

func TestSecretsAreInNoProblem(t *testing.T) {
	_, err := Load(source(strings.ReplaceAll(withSecrets, "http://u:plainpw@h/",
		"ftp://u:plainpw@${PW}/") + "drain: ${PW}\nlisten: ${HOST}\n"))
	ps, _ := errors.AsType[Problems](err)
	if len(ps) != 3 {
		t.Fatalf("problems: %v", err)
	}
	for _, secret := range []string{"pa55word", "plainpw", "literal-key", "db.example"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s is shown: %v", secret, err)
		}
	}
}

// FuzzLoad: whatever is in a file, it is read or refused at a place inside it.
func FuzzLoad(f *testing.F) {
	f.Add(faulty)
	f.Add(withSecrets)
	f.Add("a: &a [*a]\nlogger: *a\ntopics: {x: &x {handler: exec, command: x}, y: *x}")
	f.Add("? a\n: b\n")
	f.Add("logger:\n  level: |\n    info\n")
	f.Fuzz(func(t *testing.T, text string) {
		late := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("still at it: %q", text)) })
		s := source(text)
		_, err := Load(s)
		late.Stop()
		ps, _ := errors.AsType[Problems](err)
		if err != nil && len(ps) == 0 {
			t.Fatalf("an error without problems: %v", err)
		}
		lines := strings.Count(text, "\n") + 1
		for i := range ps {
			if p := &ps[i]; p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" {
				t.Errorf("%d:%d of %d lines: %s", p.Line, p.Column, lines, p)
			}
		}
	})
}
