//! Cache media: one name for each, whatever the publisher calls it.

/// Where a copy of a block lies.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Medium {
    /// Memory of the accelerator, of a publisher that says GPU or nothing.
    Gpu,
    /// Memory of the host.
    Cpu,
    /// Local storage.
    Disk,
    /// Storage that is not the instance's own.
    External,
    /// Anything else, in upper case. Never counted as GPU.
    Other(String),
}

/// Other names of host memory.
const CPU_NAMES: [&str; 5] = ["CPU", "CPU_PINNED", "CPU_TIER1", "HOST", "DRAM"];
/// Other names of local storage.
const DISK_NAMES: [&str; 6] = ["DISK", "CPU_TIER2", "SSD", "NVME", "FS", "STORAGE"];
/// Other names of shared storage.
const EXTERNAL_NAMES: [&str; 5] = ["EXTERNAL", "OBJ", "REMOTE", "SHARED_STORAGE", "OBJECT_STORE"];
/// What PyTorch calls a GPU, alone or with a number: `cuda:0`.
const GPU_NAMES: [&str; 3] = ["GPU", "CUDA", "HIP"];
/// Media that are accelerator memory too, under their own names.
const DEVICE_NAMES: [&str; 10] = ["NPU", "HBM", "XPU", "TPU", "HPU", "MLU", "GCU", "DCU", "MUSA", "VRAM"];

/// Members of an instance's answer, in which media stand by their names. A medium called like one, in any case, is
/// named behind [`APART`] instead.
const MEMBERS: [&str; 6] = ["longest_matched", "dp", "prefix", "streams", "why", "ranks"];
/// In front of such a name.
const APART: &str = "MEDIUM_";

/// The medium that a publisher means; `pool` tells what it means by saying nothing.
pub fn canonical(wire: Option<&str>, pool: bool) -> Medium {
    let name = match wire {
        None | Some("") => return if pool { Medium::Cpu } else { Medium::Gpu },
        Some(name) => name,
    };
    let among = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if among(&GPU_NAMES) || GPU_NAMES.iter().any(|gpu| is_numbered(name, gpu)) {
        Medium::Gpu
    } else if among(&CPU_NAMES) {
        Medium::Cpu
    } else if among(&DISK_NAMES) {
        Medium::Disk
    } else if among(&EXTERNAL_NAMES) {
        Medium::External
    } else {
        let apart = if among(&MEMBERS) { APART } else { "" };
        Medium::Other(format!("{apart}{}", name.to_ascii_uppercase()))
    }
}

impl Medium {
    /// The name in answers.
    pub fn name(&self) -> &str {
        match self {
            Self::Gpu => "GPU",
            Self::Cpu => "CPU",
            Self::Disk => "DISK",
            Self::External => "EXTERNAL",
            Self::Other(name) => name,
        }
    }

    /// Whether this is accelerator memory under any name.
    pub fn is_device(&self) -> bool {
        match self {
            Self::Gpu => true,
            Self::Other(name) => {
                DEVICE_NAMES.iter().any(|device| name == device || is_numbered(name, device))
            }
            _ => false,
        }
    }
}

/// What one entry of a query's `medium` list asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Every accelerator memory: `L1`, `G1`.
    Device,
    /// One medium.
    Only(Medium),
}

impl Asked {
    /// Reads one entry; `L1`…`L3` and `G1`…`G3` are levels, everything else the name of a medium.
    /// `None` for the empty name, which asks for nothing.
    pub fn from_query(name: &str) -> Option<Self> {
        let level = |level: &str| {
            ["L", "G"].iter().any(|prefix| {
                name.split_at_checked(1)
                    .is_some_and(|(letter, digit)| letter.eq_ignore_ascii_case(prefix) && digit == level)
            })
        };
        if name.is_empty() {
            None
        } else if level("1") {
            Some(Self::Device)
        } else if level("2") {
            Some(Self::Only(Medium::Cpu))
        } else if level("3") {
            Some(Self::Only(Medium::Disk))
        } else {
            Some(Self::Only(canonical(Some(name), false)))
        }
    }

    /// Whether a copy on `medium` counts.
    pub fn admits(&self, medium: &Medium) -> bool {
        match self {
            Self::Device => medium.is_device(),
            Self::Only(only) => only == medium,
        }
    }
}

/// `gpu:0` is `gpu` with a number.
fn is_numbered(name: &str, base: &str) -> bool {
    name.split_once(':').is_some_and(|(left, number)| {
        left.eq_ignore_ascii_case(base)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_has_one_name() {
        for (wire, name) in [
            ("gpu", "GPU"),
            ("Gpu", "GPU"),
            ("cuda:0", "GPU"),
            ("cpu", "CPU"),
            ("CPU_PINNED", "CPU"),
            ("CPU_TIER1", "CPU"),
            ("HOST", "CPU"),
            ("DRAM", "CPU"),
            ("CPU_TIER2", "DISK"),
            ("SSD", "DISK"),
            ("NVME", "DISK"),
            ("FS", "DISK"),
            ("STORAGE", "DISK"),
            ("OBJ", "EXTERNAL"),
            ("REMOTE", "EXTERNAL"),
            ("SHARED_STORAGE", "EXTERNAL"),
            ("OBJECT_STORE", "EXTERNAL"),
            ("npu", "NPU"),
            ("LocalCPUBackend", "LOCALCPUBACKEND"),
            (" GPU ", " GPU "),
            ("cuda:x", "CUDA:X"),
            ("dp", "MEDIUM_DP"),
            ("MEDIUM_DP", "MEDIUM_DP"),
            ("Prefix", "MEDIUM_PREFIX"),
            ("DPU", "DPU"),
        ] {
            assert_eq!(canonical(Some(wire), false).name(), name);
        }
    }

    #[test]
    fn silence_means_gpu_for_an_engine_and_cpu_for_a_pool() {
        for wire in [None, Some("")] {
            assert_eq!(canonical(wire, false), Medium::Gpu);
            assert_eq!(canonical(wire, true), Medium::Cpu);
        }
    }

    #[test]
    fn level_one_is_every_device_and_nothing_else() {
        let asked = Asked::from_query("l1").unwrap();
        for (name, admitted) in
            [("GPU", true), ("npu", true), ("NPU:3", true), ("HBM", true), ("CPU", false), ("MARS", false)]
        {
            assert_eq!(asked.admits(&canonical(Some(name), false)), admitted, "{name}");
        }
        assert!(Asked::from_query("G2").unwrap().admits(&Medium::Cpu));
        assert!(Asked::from_query("L3").unwrap().admits(&Medium::Disk));
        assert!(!Asked::from_query("gpu").unwrap().admits(&canonical(Some("NPU"), false)));
        assert_eq!(Asked::from_query(""), None);
        assert_eq!(Asked::from_query("L9"), Some(Asked::Only(Medium::Other("L9".into()))));
    }
}
