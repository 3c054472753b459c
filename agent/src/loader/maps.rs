//! Which file is mapped at an address, by what the system says?

/// What `/proc/self/maps` says (proc(5)); nothing where it cannot be read.
#[derive(Default)]
pub struct Maps(Vec<u8>);

impl Maps {
    /// Reads it as it is now. This takes milliseconds in a process with many mappings.
    pub fn now() -> Maps {
        Maps(std::fs::read("/proc/self/maps").unwrap_or_default())
    }

    /// Returns the absolute path of the file that is mapped at an address.
    pub fn path_at(&self, address: u64) -> Option<&[u8]> {
        let number = |digits: &[u8]| u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok();
        self.0.split(|byte| *byte == b'\n').find_map(|line| {
            // Addresses, access, offset, device and inode, each followed by a space, and the path behind more of them.
            let mut fields = line.splitn(6, |byte| *byte == b' ');
            let mut ends = fields.next()?.splitn(2, |byte| *byte == b'-');
            let range = number(ends.next()?)?..number(ends.next()?)?;
            let path = fields.nth(4)?.trim_ascii_start();
            (range.contains(&address) && path.starts_with(b"/")).then_some(path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn of(text: &[u8]) -> Maps {
        Maps(text.to_vec())
    }

    #[test]
    fn the_file_at_an_address_is_found_among_all_that_is_mapped() {
        let maps = b"00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/app\n\
            7f00-8000 rw-p 00000000 00:00 0 \n\
            8000-9000 r-xp 00001000 103:02 7                                          /home/me/it is here/libgpuspy.so\n\
            7ffc0000-7ffd0000 rw-p 00000000 00:00 0                                  [stack]\n";
        let maps = of(maps);
        let found = |address| maps.path_at(address).map(String::from_utf8_lossy);
        assert_eq!(found(0x0040_0000).as_deref(), Some("/usr/bin/app"));
        for inside in [0x8000, 0x8fff] {
            assert_eq!(found(inside).as_deref(), Some("/home/me/it is here/libgpuspy.so"));
        }
        for nothing in [0x7fff, 0x9000, 0x7ffc_0000, u64::MAX] {
            assert_eq!(found(nothing), None, "{nothing:#x}");
        }
        assert_eq!(of(b"no maps\n1-x").path_at(1), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn this_file_is_where_its_code_is_mapped() {
        let maps = Maps::now();
        let mapped = maps.path_at(Maps::now as *const () as u64).unwrap();
        assert_eq!(Path::new(OsStr::from_bytes(mapped)), std::env::current_exe().unwrap());
    }
}
