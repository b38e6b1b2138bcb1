// Package plain reads documents that are text: tables, JSON, XML and feeds, notebooks, RTF.
package plain

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// Text passes on what is Markdown or plain text already, in UTF-8 and with the line ends of Unix.
func Text(_ context.Context, d doc.Document) (doc.Markdown, error) {
	text := charset.Decode(d.Data, d.Charset)
	if strings.IndexByte(text, '\r') >= 0 {
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return doc.Markdown{Text: text}, nil
}

// CSV makes a table of separated values. The separator is the one that the first lines use most evenly.
func CSV(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	text := charset.Decode(d.Data, d.Charset)
	if strings.IndexByte(text, '\n') < 0 { // lines that end as on the Macs of old
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	comma := '\t'
	if d.Type != "tsv" {
		comma = separator(text)
		if strings.HasPrefix(text, "sep=") { // as Excel writes it
			_, text, _ = strings.Cut(text, "\n")
		}
	}
	columns, err := records(ctx, text, comma, nil)
	if err != nil {
		return doc.Markdown{}, err
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/2)
	first := true
	_, err = records(ctx, text, comma, func(record []string) {
		b.WriteByte('|')
		for i := range columns {
			b.WriteByte(' ')
			if i < len(record) {
				b.WriteString(cell(record[i]))
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
		if first {
			b.WriteString("|" + strings.Repeat(" --- |", columns) + "\n")
			first = false
		}
	})
	return doc.Markdown{Text: b.String()}, err
}

// records calls each for the records that are not empty, and returns the number of columns.
func records(ctx context.Context, text string, comma rune, each func([]string)) (int, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = comma, -1, true, true
	columns := 0
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		record, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return columns, nil
		case err != nil:
			return 0, doc.Fail(doc.KindCorrupt, "it is not a table of separated values: %w", err)
		}
		columns = max(columns, len(record))
		if columns > 20_000 {
			return 0, doc.Fail(doc.KindTooLarge, "it has more than 20,000 columns")
		}
		if each != nil && strings.TrimSpace(strings.Join(record, "")) != "" {
			each(record)
		}
	}
}

func separator(text string) rune {
	if rest, ok := strings.CutPrefix(text, "sep="); ok && rest != "" {
		return rune(rest[0])
	}
	best, most := ',', 0.0
	for _, c := range []rune{',', ';', '\t', '|'} {
		counts := perLine(text[:min(len(text), 8192)], c)
		lines := map[int]int{} // by how often they have it
		for _, n := range counts {
			lines[n]++
		}
		even := 0 // lines that have it as often as others do; those before the table may not
		for n, of := range lines {
			if n > 0 {
				even = max(even, of)
			}
		}
		score := float64(even)/float64(len(counts)) + float64(slices.Min(counts))/float64(slices.Max(counts)+1)
		if even > 0 && score > most {
			best, most = c, score
		}
	}
	return best
}

// perLine counts a separator in each line, but not within quotes.
func perLine(text string, c rune) []int {
	counts, quoted := []int{0}, false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == c:
			counts[len(counts)-1]++
		case r == '\n' && i+1 < len(text):
			counts = append(counts, 0)
		}
	}
	if len(text) == 8192 && len(counts) > 1 {
		counts = counts[:len(counts)-1] // it was cut
	}
	return counts
}

// cell is the text of a cell: what would be markup is escaped.
func cell(text string) string {
	text = strings.TrimSpace(text)
	if !strings.ContainsAny(text, "|\r\n<>*_[]`\\~&$#") {
		return text
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	for i, line := range lines {
		var w markdown.Writer
		w.Text(". " + line) // within a line: what is markup at the beginning of one is none in a cell
		line = strings.TrimPrefix(strings.TrimSuffix(w.String(), "\n"), ". ")
		lines[i] = strings.ReplaceAll(line, "|", `\|`)
	}
	return strings.Join(lines, "<br>")
}
