package convert

import (
	"context"
	"os"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// cases are real documents in testdata that a reader got wrong once, with the right Markdown.
var cases = []struct{ file, want string }{
	{"nested-field.docx", "A RESULT B\n"},
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + c.file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: c.file, Data: data})
			if err != nil || got.Text != c.want {
				t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, c.want)
			}
		})
	}
}
