package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) blobs() *cobra.Command {
	return noun("blobs", "Files of large bodies",
		`With blobs=FOLDER and offload=BYTES in the URL of a store, bodies above that size
are kept in files in that folder.`, s.blobsCollect())
}

func (s *session) blobsCollect() *cobra.Command {
	age := duration(operate.BlobAge)
	c := &cobra.Command{
		Use: "collect", Short: "Remove files that no message needs any more", Args: count(0, 0, "nothing"),
		Long: `Removes the files of bodies whose messages are finished and that have not been used
for some time. Messages that wait or are retained, and dead letters, keep their files.
Nothing else removes files: run it once a day. It is safe while workers run.

Over Kafka, --older-than must be longer than the retention of the topics if other
programs read them.`,
		Example: `  pawl blobs collect --dry-run --store 'sqlite:pawl.db?blobs=bodies'
  pawl blobs collect --older-than 48h --store 'sqlite:pawl.db?blobs=bodies'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if age <= 0 {
				return usage("--older-than is a duration like 24h", "--older-than %v", time.Duration(age))
			}
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			done, err := operate.CollectBlobs(c.Context(), opened, time.Duration(age), s.dryRun)
			if err != nil {
				return cannot(err, "collect files of bodies")
			}
			return s.one(done, func(w io.Writer) { describeCollected(w, done, s.dryRun) })
		},
	}
	c.Flags().Var(&age, "older-than", "keep files that were used more recently than this")
	return c
}

func describeCollected(w io.Writer, c operate.Collected, dry bool) {
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	fmt.Fprintf(w, "%s %d of %d files, %d bytes\n", verb, c.Removed, c.Blobs, c.Bytes)
	fmt.Fprintf(w, "kept: %d in use, %d too young, %d that retained messages may need\n", c.Used, c.Young, c.Deferred)
}
