package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selvedge/maintenance"
)

const module = "selvedge/"

// storeRooms are what "every store" stands for.
var storeRooms = func() (rooms []string) {
	for _, store := range maintenance.Stores() {
		if store == maintenance.StoreLive {
			store = "runs/live"
		}
		rooms = append(rooms, store)
	}
	return rooms
}()

// A room is a folder of a row of the table in architecture.md.
type room struct {
	folder     string
	everything bool
	allowed    []string // folders
}

var spans = regexp.MustCompile("`([^`]+)/`")

// readRooms reads the table of rooms. The deepest room of a package is the last that fits.
func readRooms(t *testing.T) (rooms []room, written []string) {
	t.Helper()
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		may := strings.TrimSpace(cells[3])
		for _, span := range spans.FindAllStringSubmatch(cells[1], -1) {
			written = append(written, span[1])
			r := room{folder: span[1], everything: may == "everything"}
			for _, allowed := range spans.FindAllStringSubmatch(may, -1) {
				r.allowed = append(r.allowed, allowed[1])
			}
			if strings.Contains(may, "every store") {
				r.allowed = append(r.allowed, storeRooms...)
			}
			rooms = append(rooms, r)
		}
	}
	slices.SortFunc(rooms, func(a, b room) int { return len(a.folder) - len(b.folder) })
	if len(rooms) < 15 {
		t.Fatalf("architecture.md has %d rooms", len(rooms))
	}
	return rooms, written
}

func within(folder, pkg string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func roomOf(rooms []room, pkg string) (found room) {
	for _, r := range rooms {
		if within(r.folder, pkg) {
			found = r
		}
	}
	return found
}

// forbidden tells of what a package may not import, or that it has no room.
func forbidden(rooms []room, pkg string, imports []string) (list []string) {
	own := roomOf(rooms, pkg)
	if own.folder == "" {
		return []string{fmt.Sprintf("%s is in no room of architecture.md", pkg)}
	}
	for _, imported := range imports {
		its := roomOf(rooms, imported).folder
		if own.everything || its == own.folder || slices.Contains(own.allowed, its) {
			continue
		}
		list = append(list, fmt.Sprintf("%s imports %s, which %s/ may not", pkg, imported, own.folder))
	}
	return list
}

func TestPackagesImportOnlyWhatTheirRoomMay(t *testing.T) {
	rooms, _ := readRooms(t)
	for _, dir := range []string{"..", filepath.Join("..", "bench"), filepath.Join("..", "adapters",
		"adk"), filepath.Join("..", "test", "browser")} {
		list := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
		list.Dir, list.Stderr = dir, os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := 0
		for in := json.NewDecoder(strings.NewReader(string(out))); ; packages++ {
			var p struct {
				ImportPath string
				Imports    []string
			}
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			var ours []string
			for _, imported := range p.Imports {
				if name, ok := strings.CutPrefix(imported, module); ok {
					ours = append(ours, name)
				}
			}
			pkg := strings.TrimPrefix(p.ImportPath, module)
			if pkg+"/" == module {
				pkg = "."
			}
			for _, wrong := range forbidden(rooms, pkg, ours) {
				t.Error(wrong)
			}
		}
		if packages == 0 {
			t.Errorf("no packages in %s", dir)
		}
	}
}

func TestRoomsOfTheArchitectureAreThere(t *testing.T) {
	_, written := readRooms(t)
	for _, folder := range written {
		if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
			t.Errorf("architecture.md names the room %s/, which is not there", folder)
		}
	}
}

func TestForbiddenImportsAreNoticed(t *testing.T) {
	rooms, _ := readRooms(t)
	for pkg, imported := range map[string]string{
		"runs": "agents", "runs/live": "runs", "db": "runs", "migrations": "db", "workers": "runs",
		"legacy": "cmd/migrate", "internal/tree": "legacy", "elsewhere": "db", "internal/x": "db",
	} {
		if len(forbidden(rooms, pkg, []string{imported})) == 0 {
			t.Errorf("nobody noticed that %s imports %s", pkg, imported)
		}
	}
	for pkg, imported := range map[string]string{
		"runs": "internal/tree", "agents": "internal/tree", "runs/live": "internal/tree", "db": "migrations",
		"internal/x": "internal/y", "cmd/migrate": "runs", "legacy": "workers",
	} {
		if wrong := forbidden(rooms, pkg, []string{imported}); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
}
