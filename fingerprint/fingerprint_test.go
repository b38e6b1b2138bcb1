package fingerprint_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

// causes are failures as they come, by cause.
var causes = map[string][]string{
	"refused": {
		"dial tcp 10.0.0.1:5432: connect: connection refused",
		"dial tcp 192.168.17.4:6379: connect: connection refused",
		"dial tcp [::1]:5432: connect: connection refused",
		"dial tcp [fe80::1ff:fe23:4567:890a%eth0]:80: connect: connection refused",
		"dial tcp [2001:db8:dead:beef:cafe:babe:face:fade]:5432: connect: connection refused",
	},
	"reset": {
		"read tcp 10.0.0.1:51234->10.0.0.2:443: read: connection reset by peer",
		"read tcp 172.16.3.9:40001->93.184.216.34:8443: read: connection reset by peer",
		"read tcp [::1]:51234->[::1]:443: read: connection reset by peer",
	},
	"no such host": {
		"dial tcp: lookup abc.example on 10.0.0.2:53: no such host",
		"dial tcp: lookup abc.example on 8.8.8.8:53: no such host",
		"dial tcp: lookup abc.example on [fd00::53]:53: no such host",
		"dial tcp: lookup xyz.example on 10.0.0.2:53: no such host",
	},
	"i/o timeout": {"dial tcp 10.0.0.1:5432: i/o timeout", "dial tcp 10.77.0.12:1: i/o timeout"},
	"http 503": {
		`Get "https://api.example.com/v1/users/42": unexpected status 503`,
		`Get "https://api.example.com/v1/orders?from=2026-11-21&page=3": unexpected status 503`,
		`Get "https://api.example.com": unexpected status 503`,
		`Get "https://bob:secret@api.example.com:8443/a/b": unexpected status 503`,
		`Get "https://hooks.example.org/v1/users/42": unexpected status 503`,
	},
	"http 404": {`Get "https://api.example.com/v1/users/42": unexpected status 404`,
		`Get "https://api.example.com/v1/users/abc": unexpected status 404`},
	"status line": {"HTTP/1.1 502 Bad Gateway from 10.0.0.3", "HTTP/2 502 Bad Gateway from 10.0.0.99:8080"},
	"deadline": {
		`Post "http://127.0.0.1:41234/hook": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
		`Post "http://127.0.0.1:8080/hook/7": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
	},
	"timeout": {"timeout after 17 ms (exit status 65)", "timeout after 900 ms (exit status 65)",
		"timeout after 1.5 s (exit status 65)", "timeout after 1m30.25s (exit status 65)",
		"timeout after 2 seconds (exit status 65)"},
	"exit 1": {"timeout after 17 ms (exit status 1)"},
	"expired": {
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-21T18:06:05Z is after 2026-10-01T00:00:00Z",
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2025-01-02T03:04:05+01:00 is after 2024-12-31T23:59:59Z",
	},
	"unknown authority": {"tls: failed to verify certificate: x509: certificate signed by unknown authority"},
	"duplicate": {
		`ERROR: duplicate key value violates unique constraint "users_pkey" (SQLSTATE 23505)`,
		`ERROR: duplicate key value violates unique constraint "users_pkey" (SQLSTATE 23505) `,
	},
	"duplicate of another constraint": {
		`ERROR: duplicate key value violates unique constraint "orders_key" (SQLSTATE 23505)`},
	"deadlock": {`ERROR: deadlock detected (SQLSTATE 40P01)`},
	"mysql duplicate": {"Error 1062 (23000): Duplicate entry 'bob@example.com' for key 'users.email'",
		"Error 1062 (23000): Duplicate entry '42' for key 'users.email'"},
	"no such user": {"user 550e8400-e29b-41d4-a716-446655440000 not found",
		"user aaaabbbb-cccc-dddd-eeee-ffffaaaabbbb not found", "user 01ARZ3NDEKTSV4RRFFQ69G5FAV not found",
		"user 17 not found", "user 7f3a9c1 not found", "user 507f1f77bcf86cd799439011 not found",
		"user V1StGXR8_Z5jdHi6B-myT not found"},
	"no such mailbox": {"mail to bob@example.com: no such mailbox",
		"mail to alice.smith+news@mail.example.org: no such mailbox", "mail to 17@x.io: no such mailbox"},
	"no file": {"open /tmp/pawl-x7f3k2/in.txt: no such file or directory", "open /tmp/abc: no such file or directory",
		"open /tmp/a/b/c/d.json: no such file or directory",
		"open /data/part-00017/chunk_12.bin: no such file or directory",
		"open /data/part-00018/chunk_7.bin: no such file or directory"},
	"denied": {"open /home/alice/.cache/x: permission denied", "open /home/bob/y: permission denied"},
	"go panic": {"panic: runtime error: index out of range [5] with length 3",
		"panic: runtime error: index out of range [17] with length 12"},
	"go nil": {
		"panic: runtime error: invalid memory address or nil pointer dereference [signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x4a5b6c]",
		"panic: runtime error: invalid memory address or nil pointer dereference [signal SIGSEGV: segmentation violation code=0x2 addr=0xdeadbeef pc=0x1]"},
	"goroutine": {"goroutine 17 [running]: stack at 0xc000123abc",
		"goroutine 918 [running]: stack at 0xc0000facade"},
	"java npe": {
		"java.lang.NullPointerException: Cannot invoke \"User.getName()\" because \"<local4>\" is null\n\tat com.example.Main.run(Main.java:17)",
		"java.lang.NullPointerException: Cannot invoke \"Order.id()\" because \"<local1>\" is null\n\tat com.example.Other.go(Other.java:9)"},
	"java state": {"java.lang.IllegalStateException: connection com.example.Conn@1b6d3586 is closed",
		"java.lang.IllegalStateException: connection com.example.Conn@7ef20235 is closed"},
	"python key": {
		"Traceback (most recent call last):\n  File \"/app/a.py\", line 17, in f\n    x[k]\nKeyError: 'user_17'",
		"Traceback (most recent call last):\n  File \"/srv/b.py\", line 3, in <module>\n    g()\nKeyError: 'id'\n",
		"KeyError: 'name'"},
	"python value": {
		"Traceback (most recent call last):\n  File \"/app/a.py\", line 17, in f\nValueError: invalid literal for int() with base 10: 'x'",
		"  File \"/app/a.py\", line 9, in g\n    int(s)\nValueError: invalid literal for int() with base 10: ''"},
	"json": {`cannot decode {"id": 17, "tags": ["a", "b"]}: missing field`,
		`cannot decode {"id":"x","more":{"y":"}"}}: missing field`, `cannot decode ["a", {"b": 1}]: missing field`},
	"cut json": {`unexpected answer: {"error":{"code":17,"mess`,
		`unexpected answer: {"error":{"code":9,"message":"no such thing","deta`},
	"too large": {"body of 10.5 MiB is larger than 4 MiB", "body of 1,234,567 bytes is larger than 4 KB",
		"body of 5GB is larger than 4MB"},
	"quota": {"quota at 85.3%: refused", "quota at 100%: refused"},
	"can't": {"can't connect to worker-17, it didn't answer", "can't connect to worker-3, it didn't answer"},
	"won't": {"won't connect to worker-3, it didn't start"},
	"not before": {"not before Sat, 21 Nov 2026 18:06:05 GMT", "not before Mon, 2 Feb 2026 08:00:00 UTC",
		"not before Nov 21 18:06:05", "not before 2026/11/21 18:06:05.123"},
	"token": {"bad signature of eyJhbGciOiJIUzI1NiJ9dGhpcyBpcyBh", "bad signature of c2VjcmV0LXZhbHVlLTEyMzQ1Njc4"},
	"pod":   {"pod payments-7d9f8b6c5d-x2x7q is gone", "pod payments-5c6b8f9d7d-a9b3z is gone"},
	"utf16": {"ошибка: строка 17 длиннее 80 символов", "ошибка: строка 3 длиннее 255 символов"},
}

func TestFingerprintGroupsCauses(t *testing.T) {
	by, texts := map[string]string{}, 0
	for cause, all := range causes {
		for _, text := range all {
			texts++
			if got, want := fingerprint.Of("K", text), fingerprint.Of("K", all[0]); got != want {
				t.Errorf("%s: not one cause:\n\t%s\n\t%s", cause, fingerprint.Alike(text), fingerprint.Alike(all[0]))
			}
		}
		fp := fingerprint.Of("K", all[0])
		if other, taken := by[fp]; taken {
			t.Errorf("%s and %s are one cause: %s", cause, other, fingerprint.Alike(all[0]))
		}
		by[fp] = cause
	}
	if texts < 60 || len(causes) < 12 {
		t.Errorf("only %d texts of %d causes", texts, len(causes))
	}
	if fingerprint.Of("A", "x") == fingerprint.Of("B", "x") {
		t.Error("the kind makes no difference")
	}
}

// something returns a value of one kind, another one each time.
var something = map[string]func(r *rand.Rand) string{
	"number": func(r *rand.Rand) string { return fmt.Sprint(r.Int64() >> r.IntN(63)) },
	"uuid": func(r *rand.Rand) string {
		h := hexOf(r, 32)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	},
	"address": func(r *rand.Rand) string { return "0x" + hexOf(r, 1+r.IntN(16)) },
	"hash":    func(r *rand.Rand) string { return "0" + hexOf(r, 39) },
	"ipv4": func(r *rand.Rand) string {
		return fmt.Sprintf("%d.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256))
	},
	"ipv6": func(r *rand.Rand) string {
		return fmt.Sprintf("2001:%x:%x::%x", r.IntN(65536), r.IntN(65536), r.IntN(65536))
	},
	"time": func(r *rand.Rand) string {
		return time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC().Format(time.RFC3339Nano)
	},
	"duration": func(r *rand.Rand) string { return time.Duration(r.Int64() >> r.IntN(60)).String() },
	"mail":     func(r *rand.Rand) string { return hexOf(r, 1+r.IntN(9)) + "@" + hexOf(r, 5) + ".example" },
	"quoted":   func(r *rand.Rand) string { return `"` + hexOf(r, r.IntN(30)) + ` it's"` },
	"base64": func(r *rand.Rand) string {
		b := make([]byte, 48+3*r.IntN(20))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.URLEncoding.EncodeToString(b)
	},
}

func hexOf(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

// TestFingerprintForgetsValues: whatever value of a kind stands in a text, the
// cause is the same.
func TestFingerprintForgetsValues(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	words := strings.Fields(
		"connect refused by while waiting for: (the lease of) a worker, table=users; it's [gone] not found")
	for kind, value := range something {
		for range 300 {
			r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			at := r.IntN(len(words) + 1)
			text := func() string {
				return strings.Join(words[:at], " ") + " " + value(r) + " " + strings.Join(words[at:], " ")
			}
			a, b := text(), text()
			if fingerprint.Of("K", a) != fingerprint.Of("K", b) {
				t.Fatalf("%s: not one cause:\n%s\n%s\n%s\n%s", kind, a, b, fingerprint.Alike(a), fingerprint.Alike(b))
			}
		}
	}
}

// TestFingerprintBearsAnything: no text is too strange, or slow.
func TestFingerprintBearsAnything(t *testing.T) {
	for _, piece := range []string{"'a", `"`, "{", `{"`, "[", ":", "::1", "a@", "a.b", "0x", "“", "\xe2", "\xc2", "//",
		"/(", "a/(", " /(a", "http://(", "user: a", "a)=(", "a\\", `C:\a `, "a_", "a.a.", "user=", "'a'=", "1:", "x://",
		"é", "\\", "-1", "# "} {
		text := strings.Repeat(piece, store.MaxReason/len(piece))
		began := time.Now()
		const times = 8
		for n := range times {
			fingerprint.Of("K", text[:len(text)-n])
			fingerprint.Of("K", piece[:min(n, len(piece))])
		}
		// It takes 5 ms, and a hundred times as long with the race detector on a busy machine; what grows with the
		// square of its length takes minutes.
		if took := time.Since(began) / times; took > 2*time.Second {
			t.Errorf("%q takes %v", piece, took)
		}
	}
}

func FuzzFingerprint(f *testing.F) {
	for _, all := range causes {
		f.Add(all[0])
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := fingerprint.Of(pawl.Kind(text), text); len(got) != 12 {
			t.Fatalf("fingerprint %q", got)
		}
	})
}

func BenchmarkFingerprint(b *testing.B) {
	for name, all := range map[string][]string{"refused": causes["refused"], "http": causes["http 503"],
		"expired": causes["expired"], "python": causes["python key"]} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fingerprint.Of("Download", all[0])
			}
		})
	}
}
