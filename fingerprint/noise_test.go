package fingerprint_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fingerprint"
)

// templates are causes as programs write them; % is where something varies.
var templates = []string{
	"dial tcp %: connect: connection refused", "cannot read %: permission denied", "open %: no such file or directory",
	"user % not found", "upstream answered % with status 503", "upstream answered % with status 404",
	`duplicate key value violates unique constraint "users_pkey" (%)`,
	`duplicate key value violates unique constraint "users_email" (%)`,
	"java.lang.IllegalStateException: % is closed", "timeout after waiting for %", "% is no valid value (field=%)",
	"lease lost [%] of worker",
}

func of(r *rand.Rand, n int, letters string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	alnum = "0123456789" + lower
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func one(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func moment(r *rand.Rand) time.Time { return time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC() }

func hostOf(r *rand.Rand) string {
	return "x" + of(r, r.IntN(9), lower) + "." + of(r, 1+r.IntN(5), lower) + "." + of(r, 7, lower) + one(r, ".com",
		".net", ".example", ".internal", ".svc.cluster.local", ".de")
}

// noise is what makes no difference, by kind.
var noise = map[string]func(r *rand.Rand) string{
	"hex 8":   func(r *rand.Rand) string { return hexOf(r, 8) },
	"letters": func(r *rand.Rand) string { return of(r, 6+r.IntN(9), "abcdef") + "f" },
	"HEX":     func(r *rand.Rand) string { return strings.ToUpper(hexOf(r, 12)) },
	"base 36": func(r *rand.Rand) string { return of(r, 12, alnum) + of(r, 1, "0123456789") + of(r, 12, alnum) },
	"base 62": func(r *rand.Rand) string {
		return of(r, 15, alnum+upper) + of(r, 1, "0123456789") + of(r, 16, alnum+upper)
	},
	"id":        func(r *rand.Rand) string { return "usr_" + hexOf(r, 12) },
	"stripe id": func(r *rand.Rand) string { return "cus_" + of(r, 24, alnum+upper) },
	"ulid":      func(r *rand.Rand) string { return "01" + of(r, 24, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") },
	"mac":       func(r *rand.Rand) string { return strings.TrimSuffix(strings.Repeat(hexOf(r, 2)+":", 6), ":") },
	"path": func(r *rand.Rand) string {
		return strings.Repeat("/"+of(r, 1+r.IntN(8), alnum), 1+r.IntN(4)) + one(r, ".csv", "", ".tar.gz")
	},
	"relative": func(r *rand.Rand) string {
		return of(r, 1+r.IntN(8), alnum) + strings.Repeat("/"+of(r, 1+r.IntN(8), alnum), 1+r.IntN(3)) + one(r,
			".csv", ".JSON")
	},
	"windows": func(r *rand.Rand) string {
		return one(r, `C:\`, `\\server\`, `d:\`) + of(r, 1+r.IntN(9), lower) + `\` + of(r, 8, alnum) + ".csv"
	},
	"url": func(r *rand.Rand) string {
		return one(r, "http://", "https://bob:x@", "s3://", "postgres://") + hostOf(r) + one(r, "", ":8080") + one(r,
			"", "/", "/a/"+of(r, 5, alnum), "/?q=a,b&c="+of(r, 3, alnum))
	},
	"host":      hostOf,
	"host:port": func(r *rand.Rand) string { return fmt.Sprintf("%s:%d", hostOf(r), 80+r.IntN(60000)) },
	"base64 /+": func(r *rand.Rand) string {
		b := make([]byte, 32+r.IntN(16))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.StdEncoding.EncodeToString(b)
	},
	"jwt": func(r *rand.Rand) string {
		return "eyJhbGciOiJIUzI1NiJ9.eyJ" + of(r, 40, alnum+upper+"-_") + "." + of(r, 43, alnum+upper+"-_")
	},
	"date": func(r *rand.Rand) string {
		return moment(r).Format(one(r, time.RFC3339, time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate,
			"2006/01/02 15:04:05", "02-Jan-2006", "2006-01-02", time.RFC850))
	},
	"size": func(r *rand.Rand) string {
		return fmt.Sprintf("%.1f %s", r.Float64()*1e3, one(r, "KiB", "MiB", "GB", "bytes"))
	},
	"percent": func(r *rand.Rand) string { return fmt.Sprintf("%.1f%s", r.Float64()*100, one(r, "%", " %")) },
	"version": func(r *rand.Rand) string {
		return fmt.Sprintf("%d.%d.%d%s", r.IntN(20), r.IntN(20), r.IntN(20), one(r, "", "-rc2", "-SNAPSHOT", "-beta.1"))
	},
	"phone": func(r *rand.Rand) string {
		return "+" + one(r, "49 30 ", "1 (555) ", "44-20-") + of(r, 7, "0123456789")
	},
	"money": func(r *rand.Rand) string {
		return one(r, "$", "€", "USD ", "") + fmt.Sprintf("%.2f", r.Float64()*1e4)
	},
	"key":      func(r *rand.Rand) string { return "user=" + of(r, 1+r.IntN(12), lower) },
	"document": func(r *rand.Rand) string { return `{"id": "` + of(r, r.IntN(30), alnum) + `", "a": [1, "]"]}` },
}

// TestFingerprintForgetsNoise: whatever fills them in, causes remain as many.
func TestFingerprintForgetsNoise(t *testing.T) {
	// Always the same: of a million random tokens one or two look like words.
	r := rand.New(rand.NewPCG(1, 2))
	for kind, value := range something {
		noise[kind+" (plain)"] = value
	}
	each := 1000
	if testing.Short() {
		each = 100
	}
	for kind, value := range noise {
		groups := map[string]string{}
		for _, template := range templates {
			first := ""
			for range each {
				text := template
				for strings.Contains(text, "%") {
					text = strings.Replace(text, "%", strings.ReplaceAll(value(r), "%", "\x00"), 1)
				}
				text = strings.ReplaceAll(text, "\x00", "%")
				fp := fingerprint.Of("K", text)
				if groups[fp] == "" {
					if groups[fp] = text; first != "" {
						t.Errorf("%s: not one cause:\n%s\n%s\n%s", kind, text, fingerprint.Alike(text),
							fingerprint.Alike(first))
					}
				}
				if first == "" {
					first = text
				}
			}
		}
		if len(groups) != len(templates) {
			t.Errorf("%s: %d groups of %d causes", kind, len(groups), len(templates))
		}
	}
}
