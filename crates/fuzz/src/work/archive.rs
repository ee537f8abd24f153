//! Directories as `.tar.gz` files and back. What comes down from a store is not trusted.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Files in one archive: a corpus of a large project fits, an archive made to fill a disk with names does not.
pub(crate) const FILES_MAX: usize = 200_000;

/// Unpacked bytes of one archive, against bombs.
pub(crate) const BYTES_MAX: u64 = 16 << 30;

/// Below a directory, how deep. Build outputs are flat; deeper ones are loops.
const DEPTH_MAX: usize = 32;

/// Packs the files below `dir`, sorted, without owners and times, so that equal content gives an equal archive.
///
/// Links are followed while they stay inside; one that leads out is an error.
pub(crate) fn pack(dir: &Path, archive: &Path) -> io::Result<u64> {
    let root = fs::canonicalize(dir)?;
    let mut files = Vec::new();
    collect(&root, &root, Path::new(""), 0, &mut files)?;
    files.sort();
    let out = BufWriter::new(File::create(archive)?);
    let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    for (name, path) in &files {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(meta.len());
        header.set_mode(if meta.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
        header.set_mtime(0);
        tar.append_data(&mut header, name, file.take(meta.len()))?;
    }
    let file = tar.into_inner()?.finish()?.into_inner().map_err(|error| error.into_error())?;
    file.sync_all()?;
    Ok(files.len() as u64)
}

fn collect(
    root: &Path,
    dir: &Path,
    name: &Path,
    depth: usize,
    files: &mut Vec<(PathBuf, PathBuf)>,
) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(wrong(format!("{} is nested more than {DEPTH_MAX} deep", dir.display())));
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        let path = fs::canonicalize(entry.path())?;
        if !path.starts_with(root) {
            return Err(wrong(format!("{} leads out of the directory", entry.path().display())));
        }
        let meta = fs::metadata(&path)?;
        if meta.is_dir() {
            collect(root, &path, &name, depth + 1, files)?;
        } else if meta.is_file() {
            files.push((name, path));
        }
        if files.len() > FILES_MAX {
            return Err(wrong(format!("there are more than {FILES_MAX} files in {}", root.display())));
        }
    }
    Ok(())
}

/// Unpacks into `dir`, which must exist. Only plain files with plain paths are taken; anything else refuses the whole
/// archive. Returns how many there were.
pub(crate) fn unpack(archive: &Path, dir: &Path) -> io::Result<u64> {
    unpack_within(archive, dir, BYTES_MAX)
}

fn unpack_within(archive: &Path, dir: &Path, bytes_max: u64) -> io::Result<u64> {
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(File::open(archive)?)));
    let (mut count, mut left) = (0, bytes_max);
    for entry in tar.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        // Talk about the archive as a whole, as git writes it.
        if kind.is_pax_global_extensions() {
            continue;
        }
        let name = entry.path()?.into_owned();
        let plain = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || name.components().count() > DEPTH_MAX + 1 {
            return Err(wrong(format!("the archive holds the path {}", name.display())));
        }
        let path = dir.join(&name);
        if kind.is_dir() {
            fs::create_dir_all(&path)?;
            continue;
        }
        if !kind.is_file() {
            return Err(wrong(format!("{} in the archive is no plain file", name.display())));
        }
        count += 1;
        if count > FILES_MAX as u64 {
            return Err(wrong(format!("the archive holds more than {FILES_MAX} files")));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = if entry.header().mode()? & 0o111 == 0 { 0o644 } else { 0o755 };
        // A name that is there twice is refused rather than written through.
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&path)?;
        let copied = io::copy(&mut entry.by_ref().take(left + 1), &mut file)?;
        left = left.checked_sub(copied).ok_or_else(|| {
            wrong(format!("the archive holds more than {bytes_max} bytes when it is unpacked"))
        })?;
        file.flush()?;
    }
    Ok(count)
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let home = tempfile::tempdir().expect("a directory");
        let (from, to, file) =
            (home.path().join("from"), home.path().join("to"), home.path().join("a.tar.gz"));
        fs::create_dir_all(from.join("lib")).expect("made");
        fs::create_dir(&to).expect("made");
        fs::write(from.join("tool"), "#!/bin/sh\n").expect("written");
        fs::set_permissions(from.join("tool"), fs::Permissions::from_mode(0o777)).expect("set");
        fs::write(from.join("lib/a.so.1"), "content").expect("written");
        std::os::unix::fs::symlink("a.so.1", from.join("lib/a.so")).expect("linked");
        assert_eq!(pack(&from, &file).expect("packed"), 3);
        let first = fs::read(&file).expect("read");
        pack(&from, &file).expect("packed again");
        assert_eq!(fs::read(&file).expect("read"), first);
        assert_eq!(unpack(&file, &to).expect("unpacked"), 3);
        assert_eq!(fs::read_to_string(to.join("lib/a.so")).expect("read"), "content");
        assert_eq!(fs::metadata(to.join("tool")).expect("there").permissions().mode() & 0o777, 0o755);
        // Nothing is overwritten.
        assert!(unpack(&file, &to).is_err());

        std::os::unix::fs::symlink("/etc/hostname", from.join("out")).expect("linked");
        assert!(pack(&from, &file).expect_err("refused").to_string().contains("leads out"));
    }

    #[test]
    fn hostile_archives_are_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("bad.tar.gz");
        let check = |kind: tar::EntryType, name: &[u8], content: &[u8], why: &str| {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name);
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_link_name("/etc/passwd").expect("a name");
            header.set_cksum();
            let mut tar =
                tar::Builder::new(GzEncoder::new(File::create(&file).expect("a file"), Compression::fast()));
            tar.append(&header, content).expect("appended");
            tar.into_inner().expect("whole").finish().expect("whole");
            let dir = home.path().join("dir");
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir(&dir).expect("made");
            let error = unpack_within(&file, &dir, 100).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
            assert!(!home.path().join("escaped").exists());
        };
        check(tar::EntryType::Regular, b"../escaped", b"x", "the path ../escaped");
        check(tar::EntryType::Regular, b"/tmp/escaped", b"x", "the path /tmp/escaped");
        check(tar::EntryType::Symlink, b"link", b"", "is no plain file");
        check(tar::EntryType::Link, b"link", b"", "is no plain file");
        check(tar::EntryType::Char, b"device", b"", "is no plain file");
        check(tar::EntryType::Regular, b"large", &[0; 101], "more than 100 bytes");
        fs::write(&file, "not an archive").expect("written");
        assert!(unpack(&file, home.path()).is_err());
    }
}
